/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/capture/watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "attach/trace/threadnames.h"
#include "attach/elf/linkmap.h"
#include "attach/memory/memory.h"
#include "attach/memory/proc_maps.h"
#include "attach/proc/clock.h"
#include "attach/proc/proc_status.h"
#include "attach/proc/proc_tids.h"
#include "format/arch.h"

#define MAPS_PERIOD_NS	  (500 * CLOCK_NS_PER_MS)
#define CHAIN_PERIOD_NS	  (50 * CLOCK_NS_PER_MS)
#define UNKNOWN_PERIOD_NS (20 * CLOCK_NS_PER_MS)
#define DEAD_PERIOD_NS	  (250 * CLOCK_NS_PER_MS)
#define STACK_PERIOD_NS	  (50 * CLOCK_NS_PER_MS)
#define BOUNDS_PERIOD_NS  (500 * CLOCK_NS_PER_MS)
#define SPACES_MAX	  64u
#define THREADS_MAX	  ABI_SLOT_MAX
#define STACK_MAX_BYTES	  (1ull << 38) /* a larger value is an address, no size */
#define STACK_GAP_BYTES	  (1ull << 20) /* the kernel's stack_guard_gap: mmap maps nothing there */
#define STACK_MIN_BYTES	  (1ull << 14)
#define CONTROL_BYTES	  (1ull << 13) /* at most, from the thread pointer to the stack's end */

/* The last entries of the dynamic linker's lists. */
struct ends {
	raddr_t head; /* of the list of namespaces */
	raddr_t tail[SPACES_MAX];
	unsigned count;
};

struct watch {
	struct watch_options options;
	raddr_t head; /* head of the dynamic linker's lists; 0: the program has none */
	struct ends ends;
	uint64_t chains_hash, maps_hash, slots_hash;
	uint64_t unknown_pcs;
	uint64_t next_maps_ns, next_chain_ns, next_unknown_ns, next_dead_ns, next_stack_ns,
		next_bounds_ns;
	uint64_t stack_kib; /* of glance_status, when the main thread's bounds were last read */
	struct receiver_thread thread[THREADS_MAX];
	size_t thread_count;
	struct threadnames *names;
	uint64_t unplaced[THREADS_MAX]; /* by thread record: the incarnation whose stack was not
					   found; 0: none */
};

static const struct proc *proc_of(const struct watch *watch)
{
	return &watch->options.survey->proc;
}

static bool due(uint64_t *next_ns, uint64_t now_ns, uint64_t period_ns)
{
	if (now_ns < *next_ns)
		return false;
	*next_ns = now_ns + period_ns;
	return true;
}

/* --- modules
 * ---------------------------------------------------------------------------------------- */

static void hash_add(uint64_t *hash, uint64_t word)
{
	*hash = (*hash ^ word) * 0x9e3779b97f4a7c15ull;
	*hash ^= *hash >> 32;
}

struct chains {
	struct ends ends;
	uint64_t hash;
};

static void take_link(void *context, unsigned space, raddr_t head, raddr_t link, raddr_t dynamic)
{
	struct chains *chains = context;
	struct ends *ends = &chains->ends;

	if (space < SPACES_MAX) {
		ends->tail[space] = link;
		ends->count = space + 1;
	}
	ends->head = head;
	hash_add(&chains->hash, link);
	hash_add(&chains->hash, dynamic);
}

/* Hashes the lists of loaded objects. A list that changes meanwhile gives a wrong hash, which the
 * next look corrects. */
static struct chains walk_chains(const struct watch *watch)
{
	struct chains chains = {0};
	linkmap_walk(proc_of(watch), watch->head, take_link, &chains);
	return chains;
}

/* Cheap: the dynamic linker adds libraries at the end. */
static bool chains_grew(const struct watch *watch)
{
	bool grew = watch->ends.head && linkmap_head_grew(proc_of(watch), watch->ends.head);
	for (unsigned i = 0; i < watch->ends.count && !grew; i++)
		grew = watch->ends.tail[i] &&
		       linkmap_link_grew(proc_of(watch), watch->ends.tail[i]);
	return grew;
}

/* Hashes the words of all slots: the dynamic linker binds lazy slots and relocates those of a
 * library that was seen half loaded, and the program may store another function. `settled`: slots
 * that heaptap does not write count with the value that the survey read. */
static uint64_t hash_slots(const struct watch *watch, bool settled)
{
	const struct slots *slots = &watch->options.survey->slots;
	uint64_t page[HT_PAGE_BYTES / sizeof(uint64_t)];
	raddr_t page_at = 0;
	uint64_t hash = 0;
	size_t got = 0;

	for (size_t i = 0; i < slots->count; i++) {
		const struct slot *slot = &slots->slot[i];
		raddr_t lo = ht_align_down(slot->addr, HT_PAGE_BYTES);
		uint64_t value = slot->value;
		if (slot->addr % sizeof(uint64_t))
			continue;
		if (lo != page_at) {
			struct ht_err *err =
				memory_read_some(proc_of(watch), lo, page, sizeof(page), &got);
			ht_err_free(err);
			page_at = lo;
		}
		if (slot->real || !settled)
			value = slot->addr - lo < got ? page[(slot->addr - lo) / sizeof(uint64_t)]
						      : 0;
		hash_add(&hash, value);
	}
	return hash;
}

void watch_settled(struct watch *watch)
{
	watch->slots_hash = hash_slots(watch, true);
}

static struct ht_err *hash_exec_maps(const struct watch *watch, uint64_t *ret)
{
	struct proc_maps maps;
	uint64_t hash = 0;
	HT_TRY(proc_maps_read(proc_of(watch), &maps));
	for (size_t i = 0; i < maps.count; i++)
		if (maps.map[i].exec) {
			hash_add(&hash, maps.map[i].lo ^ maps.map[i].inode);
			hash_add(&hash, maps.map[i].hi);
		}
	proc_maps_deinit(&maps);
	*ret = hash;
	return NULL;
}

struct ht_err *watch_modules(struct watch *watch, uint64_t now_ns, bool *ret_changed)
{
	bool changed = chains_grew(watch);

	if (due(&watch->next_chain_ns, now_ns, CHAIN_PERIOD_NS))
		changed |= walk_chains(watch).hash != watch->chains_hash ||
			   hash_slots(watch, false) != watch->slots_hash;
	uint64_t unknown = receiver_unknown_pcs(watch->options.receiver);
	if (unknown != watch->unknown_pcs &&
		due(&watch->next_unknown_ns, now_ns, UNKNOWN_PERIOD_NS)) {
		watch->unknown_pcs = unknown;
		watch->next_maps_ns = 0;
	}
	if (changed || due(&watch->next_maps_ns, now_ns, MAPS_PERIOD_NS)) {
		uint64_t hash;
		HT_TRY(hash_exec_maps(watch, &hash));
		changed |= hash != watch->maps_hash;
		watch->maps_hash = hash;
	}
	if (changed) {
		struct chains chains = walk_chains(watch);
		watch->ends = chains.ends;
		watch->chains_hash = chains.hash;
	}
	*ret_changed = changed;
	return NULL;
}

/* --- threads
 * ------------------------------------------------------------------------------------------ */

static void collect_thread(void *context, const struct receiver_thread *thread)
{
	struct watch *watch = context;
	if (watch->thread_count < THREADS_MAX)
		watch->thread[watch->thread_count++] = *thread;
}

static bool is_main(const struct watch *watch, const struct receiver_thread *thread)
{
	return thread->tid == (uint32_t)watch->options.survey->status.ns_tid;
}

/* Returns the lower end of a thread's stack as the thread's control block at `thread_pointer` gives
 * it: an address, followed by the number of bytes (glibc, musl). 0: no such pair. The mapping does
 * not show it: other threads' stacks may be below in the same mapping. */
static raddr_t stack_told(const struct watch *watch, raddr_t thread_pointer)
{
	uint64_t word[HT_PAGE_BYTES / sizeof(uint64_t)];
	size_t got = 0;
	raddr_t told = 0;
	struct ht_err *err =
		memory_read_some(proc_of(watch), thread_pointer, word, sizeof(word), &got);
	ht_err_free(err);
	for (size_t i = 0; i + 1 < got / sizeof(word[0]); i++) {
		raddr_t lo = word[i];
		uint64_t bytes = word[i + 1];
		if (bytes >= STACK_MIN_BYTES && bytes <= STACK_MAX_BYTES && lo < thread_pointer &&
			lo + bytes - thread_pointer <= CONTROL_BYTES && lo > told)
			told = lo;
	}
	return told;
}

/* Bounds of the main thread's stack. Above the kernel's random bytes for the program are only the
 * program's strings. The stack may grow before the next look: a stack pointer in the gap that the
 * kernel keeps free below can only be on this stack. */
static void main_bounds(const struct watch *watch, const struct proc_maps *maps, size_t i,
	raddr_t *ret_lo, raddr_t *ret_hi)
{
	const struct proc_map *map = &maps->map[i];
	raddr_t random = proc_of(watch)->random;
	bool is_free = i == 0 || maps->map[i - 1].hi <= map->lo - STACK_GAP_BYTES;
	*ret_lo = is_free ? map->lo - STACK_GAP_BYTES : map->lo;
	*ret_hi = random - map->lo < map->hi - map->lo
			  ? ht_align_down(random, HT_PAGE_BYTES) + HT_PAGE_BYTES
			  : map->hi;
}

/*
 * Finds the primary stack of a thread. The main thread's is [stack]. Other threads have their
 * control block, to which the thread pointer leads, at the top of their stack (glibc, musl). A
 * thread that does not look like that has no bounds: its stacks are copied before they are walked.
 */
static bool find_bounds(const struct watch *watch, const struct proc_maps *maps,
	const struct receiver_thread *thread, raddr_t *ret_lo, raddr_t *ret_hi)
{
	if (is_main(watch, thread)) {
		for (size_t i = 0; i < maps->count; i++) {
			const struct proc_map *map = &maps->map[i];
			if (strcmp(map->name, "[stack]") != 0)
				continue;
			main_bounds(watch, maps, i, ret_lo, ret_hi);
			return true;
		}
		return false;
	}
	const struct proc_map *map = proc_maps_find(maps, thread->thread_pointer);
	if (!map || map->name[0] != '\0' || map->shared || !map->write)
		return false;
	raddr_t told = stack_told(watch, thread->thread_pointer);
	if (!told)
		return false;
	*ret_lo = told > map->lo ? told : map->lo;
	*ret_hi = thread->thread_pointer;
	return true;
}

/* Which threads' stack bounds are read now. Rarely, since reading all mappings blocks the target's
 * own mmap calls. */
struct bounds_due {
	bool main; /* those of the main thread, whose stack may have grown below its bounds */
	bool any;  /* also those of threads whose stack was not found before */
};

static struct bounds_due bounds_due(struct watch *watch, uint64_t now_ns, uint64_t stack_kib)
{
	struct bounds_due ret = {.any = due(&watch->next_bounds_ns, now_ns, BOUNDS_PERIOD_NS)};
	bool has_grown = stack_kib == 0 || stack_kib != watch->stack_kib;
	if (ret.any)
		watch->next_stack_ns = now_ns + STACK_PERIOD_NS;
	ret.main = ret.any || (has_grown && due(&watch->next_stack_ns, now_ns, STACK_PERIOD_NS));
	return ret;
}

/* A thread on an unknown stack may stay there for good: look for its stack once, and then only when
 * all are due. */
static bool needs_bounds(
	const struct watch *watch, const struct receiver_thread *thread, struct bounds_due again)
{
	if (thread->bounded)
		return again.main && is_main(watch, thread);
	return again.any || watch->unplaced[thread->slot % THREADS_MAX] != thread->incarnation;
}

static void bound_thread(
	struct watch *watch, const struct proc_maps *maps, const struct receiver_thread *thread)
{
	raddr_t lo, hi;
	bool found = find_bounds(watch, maps, thread, &lo, &hi);
	if (found)
		receiver_set_bounds(watch->options.receiver, thread, lo, hi);
	watch->unplaced[thread->slot % THREADS_MAX] = found ? 0 : thread->incarnation;
}

static struct ht_err *bound_threads(struct watch *watch, uint64_t now_ns, uint64_t stack_kib)
{
	struct proc_maps maps;
	bool any = false;

	struct bounds_due again = bounds_due(watch, now_ns, stack_kib);
	for (size_t i = 0; i < watch->thread_count && !any; i++)
		any = needs_bounds(watch, &watch->thread[i], again);
	if (!any)
		return NULL;
	HT_TRY(proc_maps_read(proc_of(watch), &maps));
	/* The mappings are read now anyway. */
	again.main = true;
	for (size_t i = 0; i < watch->thread_count; i++)
		if (needs_bounds(watch, &watch->thread[i], again))
			bound_thread(watch, &maps, &watch->thread[i]);
	proc_maps_deinit(&maps);
	watch->stack_kib = stack_kib;
	return NULL;
}

/* Returns the number of task `tid` in the target's innermost pid namespace; 0: the task has ended,
 * or, with `ret_told` false, could not be read. */
static uint32_t inner_tid(const struct watch *watch, pid_t tid, bool *ret_told)
{
	const struct survey *survey = watch->options.survey;
	struct proc_status status;

	*ret_told = true;
	if (survey->status.ns_tid == survey->proc.pid)
		return (uint32_t)tid;
	struct ht_err *err = proc_status(proc_of(watch), tid, &status);
	*ret_told = !err || err->code == HT_ERR_TARGET_GONE || err->sys == ENOENT;
	uint32_t inner = err ? 0 : (uint32_t)status.ns_tid;
	ht_err_free(err);
	return inner;
}

/* The living threads, with the number in our pid namespace and in the target's. */
struct living {
	struct proc_tids tids;
	uint32_t *inner;
	bool is_whole; /* every thread's number could be read: a thread that is not in the list has
			  ended */
};

static void living_deinit(struct living *living)
{
	proc_tids_deinit(&living->tids);
	free(living->inner);
}

/* Reads each thread's number once, for all comparisons. */
static struct ht_err *living_read(const struct watch *watch, struct living *ret)
{
	struct living living = {0};
	HT_TRY(proc_tids_read(proc_of(watch), &living.tids));
	living.inner = calloc(living.tids.count + 1, sizeof(*living.inner));
	if (!living.inner) {
		living_deinit(&living);
		return ht_err_new(HT_ERR_NOMEM, "no memory to watch the threads");
	}
	living.is_whole = true;
	for (size_t i = 0; i < living.tids.count; i++) {
		bool told;
		living.inner[i] = inner_tid(watch, living.tids.tid[i], &told);
		living.is_whole &= told;
	}
	*ret = living;
	return NULL;
}

/* Returns the tid in our pid namespace; 0: no such thread. */
static pid_t living_find(const struct living *living, uint32_t inner)
{
	for (size_t i = 0; i < living->tids.count; i++)
		if (living->inner[i] == inner)
			return living->tids.tid[i];
	return 0;
}

static void number_threads(struct watch *watch, const struct living *living)
{
	for (size_t i = 0; i < watch->thread_count; i++) {
		const struct receiver_thread *thread = &watch->thread[i];
		if (threadnames_needs_number(watch->names, thread, 1))
			threadnames_number(watch->names, thread, living_find(living, thread->tid));
	}
}

static void release_dead(struct watch *watch, const struct living *living)
{
	for (size_t i = 0; i < watch->thread_count; i++)
		if (!living_find(living, watch->thread[i].tid))
			receiver_release(watch->options.receiver, &watch->thread[i]);
}

static bool has_same_numbers(const struct watch *watch)
{
	const struct survey *survey = watch->options.survey;
	return survey->status.ns_tid == survey->proc.pid;
}

static struct ht_err *name_threads(struct watch *watch, uint64_t look_tsc)
{
	return threadnames_look(watch->names, proc_of(watch), watch->options.sink, watch->thread,
		watch->thread_count, look_tsc, has_same_numbers(watch));
}

static uint64_t collect_threads(struct watch *watch)
{
	uint64_t look_tsc = arch_tsc();
	watch->thread_count = 0;
	receiver_each_thread(watch->options.receiver, collect_thread, watch);
	return look_tsc;
}

struct ht_err *watch_names(struct watch *watch)
{
	return name_threads(watch, collect_threads(watch));
}

bool watch_names_soon(const struct watch *watch)
{
	return threadnames_come_fast(watch->names);
}

struct ht_err *watch_threads(struct watch *watch, uint64_t now_ns, uint64_t stack_kib)
{
	uint64_t look_tsc = collect_threads(watch);
	HT_TRY(bound_threads(watch, now_ns, stack_kib));
	bool look_for_dead = due(&watch->next_dead_ns, now_ns, DEAD_PERIOD_NS);
	bool number = !has_same_numbers(watch) &&
		      threadnames_needs_number(watch->names, watch->thread, watch->thread_count);
	if (!look_for_dead && !number)
		return name_threads(watch, look_tsc);
	struct living living;
	struct ht_err *err = living_read(watch, &living);
	if (err && err->code == HT_ERR_REFUSED) {
		/* Threads come and go too fast to be read now: leave it to the next look. */
		ht_err_free(err);
		return name_threads(watch, look_tsc);
	}
	if (err)
		return err;
	if (number)
		number_threads(watch, &living);
	err = name_threads(watch, look_tsc);
	if (!err && look_for_dead && living.is_whole)
		release_dead(watch, &living);
	living_deinit(&living);
	return err;
}

/* --- life cycle
 * ------------------------------------------------------------------------------------------ */

struct ht_err *watch_create(const struct watch_options *options, struct watch **ret)
{
	struct watch *watch = calloc(1, sizeof(*watch));
	if (!watch)
		return ht_err_new(HT_ERR_NOMEM, "no memory to watch the process");
	watch->options = *options;
	struct ht_err *err = threadnames_create(&watch->names);
	if (err) {
		free(watch);
		return err;
	}
	watch->head = linkmap_head(&options->survey->proc, &options->survey->modules);
	/* All hashes are 0, so the first look reports a change: it finds what was loaded since the
	 * survey. */
	*ret = watch;
	return NULL;
}

void watch_destroy(struct watch *watch)
{
	if (!watch)
		return;
	threadnames_destroy(watch->names);
	free(watch);
}
