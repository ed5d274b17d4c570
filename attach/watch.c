/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/watch.h"

#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "attach/target/clock.h"

#define MAPS_PERIOD_NS	  (500 * CLOCK_NS_PER_MS)
#define CHAIN_PERIOD_NS	  (50 * CLOCK_NS_PER_MS)
#define UNKNOWN_PERIOD_NS (20 * CLOCK_NS_PER_MS)
#define DEAD_PERIOD_NS	  (250 * CLOCK_NS_PER_MS)
#define RSS_PERIOD_NS	  (100 * CLOCK_NS_PER_MS)
#define STACK_PERIOD_NS	  (50 * CLOCK_NS_PER_MS)
#define CHAIN_MAX	  20000u
#define THREADS_MAX	  ABI_SLOT_MAX
#define STACK_MAX_BYTES	  (1ull << 30)

struct named {
	uint32_t tid;
	uint64_t incarnation;
};

struct watch {
	struct watch_options options;
	raddr_t r_debug; /* 0: the program has none */
	raddr_t tail;	 /* last link_map element */
	uint64_t chain_length;
	uint64_t maps_hash;
	uint64_t unknown_pcs;
	uint64_t next_maps_ns, next_chain_ns, next_unknown_ns, next_dead_ns, next_rss_ns,
		next_stack_ns;
	struct receiver_thread thread[THREADS_MAX];
	size_t thread_count;
	struct named named[THREADS_MAX]; /* by slot */
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

static raddr_t find_r_debug(const struct survey *survey)
{
	for (size_t i = 0; i < survey->modules.count; i++) {
		const struct module *module = &survey->modules.module[i];
		if (!module->executable || !module->dynamic)
			continue;
		for (uint64_t off = 0; off + sizeof(Elf64_Dyn) <= module->dynamic_bytes;
			off += sizeof(Elf64_Dyn)) {
			Elf64_Dyn dyn;
			struct ht_err *err = memory_read(
				&survey->proc, module->dynamic + off, &dyn, sizeof(dyn));
			ht_err_free(err);
			if (err || dyn.d_tag == DT_NULL)
				return 0;
			if (dyn.d_tag == DT_DEBUG)
				return dyn.d_un.d_ptr;
		}
	}
	return 0;
}

static bool read_word(const struct watch *watch, raddr_t addr, uint64_t *ret)
{
	struct ht_err *err = memory_read_u64(proc_of(watch), addr, ret);
	ht_err_free(err);
	return !err;
}

/* Walks the list of loaded objects; a list in motion gives a wrong length, and the next look
 * another. */
static void walk_chain(const struct watch *watch, raddr_t *ret_tail, uint64_t *ret_length)
{
	uint64_t at = 0, length = 0;
	raddr_t tail = 0;

	if (watch->r_debug)
		(void)!read_word(watch, watch->r_debug + offsetof(struct r_debug, r_map), &at);
	while (at && length < CHAIN_MAX) {
		tail = at;
		length++;
		if (!read_word(watch, tail + offsetof(struct link_map, l_next), &at))
			break;
	}
	*ret_tail = tail;
	*ret_length = length;
}

static bool chain_grew(const struct watch *watch)
{
	uint64_t next;
	return watch->tail &&
	       (!read_word(watch, watch->tail + offsetof(struct link_map, l_next), &next) || next);
}

static struct ht_err *hash_exec_maps(const struct watch *watch, uint64_t *ret)
{
	struct proc_maps maps;
	uint64_t hash = 0;
	struct ht_err *err = proc_maps_read(proc_of(watch), &maps);
	if (err)
		return err;
	for (size_t i = 0; i < maps.count; i++)
		if (maps.map[i].exec)
			hash = ((hash ^ maps.map[i].lo ^ maps.map[i].inode) *
				       0x9e3779b97f4a7c15ull) ^
			       maps.map[i].hi;
	proc_maps_deinit(&maps);
	*ret = hash;
	return NULL;
}

struct ht_err *watch_modules(struct watch *watch, uint64_t now_ns, bool *ret_changed)
{
	bool changed = chain_grew(watch);

	if (due(&watch->next_chain_ns, now_ns, CHAIN_PERIOD_NS)) {
		raddr_t tail;
		uint64_t length;
		walk_chain(watch, &tail, &length);
		changed |= tail != watch->tail || length != watch->chain_length;
	}
	uint64_t unknown = receiver_totals(watch->options.receiver).unknown_pcs;
	if (unknown != watch->unknown_pcs &&
		due(&watch->next_unknown_ns, now_ns, UNKNOWN_PERIOD_NS)) {
		watch->unknown_pcs = unknown;
		watch->next_maps_ns = 0;
	}
	if (changed || due(&watch->next_maps_ns, now_ns, MAPS_PERIOD_NS)) {
		uint64_t hash;
		struct ht_err *err = hash_exec_maps(watch, &hash);
		if (err)
			return err;
		changed |= hash != watch->maps_hash;
		watch->maps_hash = hash;
	}
	if (changed)
		walk_chain(watch, &watch->tail, &watch->chain_length);
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

/*
 * The primary stack of a thread: the main thread's is [stack]; others have their control block,
 * which the thread pointer names, at the top of theirs (glibc, musl). Anything that does not look
 * like that stays unbounded, and is read by copying.
 */
static bool find_bounds(const struct watch *watch, const struct proc_maps *maps,
	const struct receiver_thread *thread, raddr_t *ret_lo, raddr_t *ret_hi)
{
	if (is_main(watch, thread)) {
		for (size_t i = 0; i < maps->count; i++) {
			const struct proc_map *map = &maps->map[i];
			if (strcmp(map->name, "[stack]") != 0)
				continue;
			*ret_lo = map->lo;
			*ret_hi = map->hi;
			return true;
		}
		return false;
	}
	const struct proc_map *map = proc_maps_find(maps, thread->thread_pointer);
	if (!map || map->name[0] != '\0' || map->shared || !map->write ||
		map->hi - map->lo > STACK_MAX_BYTES)
		return false;
	*ret_lo = map->lo;
	*ret_hi = thread->thread_pointer;
	return true;
}

static struct ht_err *bound_threads(struct watch *watch, uint64_t now_ns)
{
	struct proc_maps maps;
	bool any = false;

	/* The main thread's stack grows: what is below its bounds is read by copying until they
	 * follow. */
	bool again = due(&watch->next_stack_ns, now_ns, STACK_PERIOD_NS);
	for (size_t i = 0; i < watch->thread_count; i++) {
		struct receiver_thread *thread = &watch->thread[i];
		thread->bounded &= !(again && is_main(watch, thread));
		any |= !thread->bounded;
	}
	if (!any)
		return NULL;
	struct ht_err *err = proc_maps_read(proc_of(watch), &maps);
	if (err)
		return err;
	for (size_t i = 0; i < watch->thread_count; i++) {
		raddr_t lo, hi;
		if (!watch->thread[i].bounded &&
			find_bounds(watch, &maps, &watch->thread[i], &lo, &hi))
			receiver_set_bounds(watch->options.receiver, &watch->thread[i], lo, hi);
	}
	proc_maps_deinit(&maps);
	return NULL;
}

/* The number of task `tid` as the target's innermost pid namespace counts. */
static uint32_t inner_tid(const struct watch *watch, pid_t tid)
{
	const struct survey *survey = watch->options.survey;
	struct proc_status status;

	if (survey->status.ns_tid == survey->proc.pid)
		return (uint32_t)tid;
	struct ht_err *err = proc_status(proc_of(watch), tid, &status);
	ht_err_free(err);
	return err ? 0 : (uint32_t)status.ns_tid;
}

static struct ht_err *name_threads(struct watch *watch, const struct proc_tids *tids)
{
	for (size_t i = 0; i < watch->thread_count; i++) {
		const struct receiver_thread *thread = &watch->thread[i];
		struct named *named = &watch->named[thread->slot % THREADS_MAX];
		if (named->tid == thread->tid && named->incarnation == thread->incarnation)
			continue;
		*named = (struct named){thread->tid, thread->incarnation};
		for (size_t t = 0; t < tids->count; t++) {
			struct proc_status status;
			if (inner_tid(watch, tids->tid[t]) != thread->tid)
				continue;
			struct ht_err *err = proc_status(proc_of(watch), tids->tid[t], &status);
			if (err) {
				ht_err_free(err);
				break;
			}
			struct rec rec = {.kind = REC_THREAD};
			rec.thread.tid = thread->tid;
			rec.thread.name = (struct rec_string){status.comm, strlen(status.comm)};
			err = sink_put(watch->options.sink, &rec, 0);
			if (err)
				return err;
			break;
		}
	}
	return NULL;
}

static void release_dead(struct watch *watch, const struct proc_tids *tids)
{
	for (size_t i = 0; i < watch->thread_count; i++) {
		bool alive = false;
		for (size_t t = 0; t < tids->count && !alive; t++)
			alive = inner_tid(watch, tids->tid[t]) == watch->thread[i].tid;
		if (!alive)
			receiver_release(watch->options.receiver, &watch->thread[i]);
	}
}

static bool any_unnamed(const struct watch *watch)
{
	for (size_t i = 0; i < watch->thread_count; i++) {
		const struct receiver_thread *thread = &watch->thread[i];
		const struct named *named = &watch->named[thread->slot % THREADS_MAX];
		if (named->tid != thread->tid || named->incarnation != thread->incarnation)
			return true;
	}
	return false;
}

struct ht_err *watch_threads(struct watch *watch, uint64_t now_ns)
{
	watch->thread_count = 0;
	receiver_each_thread(watch->options.receiver, collect_thread, watch);
	struct ht_err *err = bound_threads(watch, now_ns);
	if (err)
		return err;
	bool look_for_dead = due(&watch->next_dead_ns, now_ns, DEAD_PERIOD_NS);
	if (!look_for_dead && !any_unnamed(watch))
		return NULL;
	struct proc_tids tids;
	err = proc_tids_read(proc_of(watch), &tids);
	if (err)
		return err;
	err = name_threads(watch, &tids);
	if (!err && look_for_dead)
		release_dead(watch, &tids);
	proc_tids_deinit(&tids);
	return err;
}

/* --- memory
 * ------------------------------------------------------------------------------------------- */

struct ht_err *watch_memory(struct watch *watch, uint64_t now_ns)
{
	struct proc_status status;

	if (!due(&watch->next_rss_ns, now_ns, RSS_PERIOD_NS))
		return NULL;
	struct ht_err *err = proc_status(proc_of(watch), 0, &status);
	if (err)
		return err;
	struct rec rec = {.kind = REC_RSS};
	rec.rss = (struct rec_rss){.mono_ns = now_ns, .rss_bytes = status.rss_bytes};
	return sink_put(watch->options.sink, &rec, 0);
}

/* --- life cycle
 * ------------------------------------------------------------------------------------------ */

struct ht_err *watch_create(const struct watch_options *options, struct watch **ret)
{
	struct watch *watch = calloc(1, sizeof(*watch));
	if (!watch)
		return ht_err_new(HT_ERR_NOMEM, "no memory to watch the target");
	watch->options = *options;
	watch->r_debug = find_r_debug(options->survey);
	/* Nothing is remembered yet: the first look reports a change, and with it whatever was
	 * loaded between the survey and now. */
	*ret = watch;
	return NULL;
}

void watch_destroy(struct watch *watch)
{
	free(watch);
}
