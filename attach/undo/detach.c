/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/undo/detach.h"

#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "attach/elf/modules.h"
#include "attach/helper/priority.h"
#include "attach/inject/ownfds.h"
#include "attach/stub/remote.h"
#include "attach/memory/memory.h"
#include "attach/memory/ours.h"
#include "attach/memory/proc_maps.h"
#include "attach/memory/slow.h"
#include "attach/proc/clock.h"
#include "attach/proc/proc_tids.h"
#include "attach/process/descriptor.h"
#include "attach/process/standstill.h"
#include "attach/proof/books.h"
#include "attach/proof/prove.h"

#define PROMPT_NS      CLOCK_NS_PER_S /* a proof that took longer is level 1 */
#define GATE_NS	       CLOCK_NS_PER_S
#define GATE_STEP_NS   (CLOCK_NS_PER_MS / 20)
#define GATE_PUMP_NS   CLOCK_NS_PER_MS
#define SLACK_LEAST_NS (2 * CLOCK_NS_PER_S)
#define UNMAP_ATTEMPTS 4u

static struct ht_err *read_slots(
	const struct detach *detach, struct modules *modules, struct slots *ret)
{
	HT_CLEANUP(proc_maps_deinit) struct proc_maps maps = {0};
	HT_TRY(proc_maps_read(detach->proc, &maps));
	HT_TRY(modules_reread(detach->proc, &maps, detach->modules, modules));
	return slots_read_left(detach->proc, modules, ret);
}

static struct ht_err *replace_strays(
	const struct detach *detach, const struct modules *modules, const struct slots *slots)
{
	HT_CLEANUP(patch_end) struct patch patch = {.lookup.fd = -1};
	HT_TRY(patch_begin(detach->proc, &patch));
	for (size_t i = 0; i < slots->count; i++) {
		const struct slot *slot = &slots->slot[i];
		const struct module *module = modules_find(modules, slot->addr);
		raddr_t real = image_real(detach->image, slot->value);
		if (real && module)
			HT_TRY(patch_replace(&patch, module, slot, real));
	}
	return NULL;
}

/* Restores slots of a forked process that the journal does not list any more: the parent has loaded
 * another library where the forked process still has the old one. */
static struct ht_err *untap_strays(const struct detach *detach)
{
	HT_CLEANUP(modules_deinit) struct modules modules = {0};
	HT_CLEANUP(slots_deinit) struct slots slots = {0};
	HT_TRY(read_slots(detach, &modules, &slots));
	return replace_strays(detach, &modules, &slots);
}

static bool is_calling(const struct image *image)
{
	const struct abi_control *control = image_control(image);
	bool without_slot = __atomic_load_n(&control->exec_calling, __ATOMIC_ACQUIRE) ||
			    __atomic_load_n(&control->load_calling, __ATOMIC_ACQUIRE);
	for (uint32_t i = 0; !without_slot && (i = image_slot_next(image, i)) < image->slot_max;
		i++) {
		const struct abi_slot_head *head = image_slot_head(image, i);
		if (__atomic_load_n(&head->calling, __ATOMIC_ACQUIRE) &&
			!(__atomic_load_n(&head->key, __ATOMIC_ACQUIRE) & ABI_SLOT_DEAD))
			return true;
	}
	return without_slot;
}

static void pump(const struct detach *detach)
{
	if (detach->pump)
		detach->pump(detach->context);
}

/*
 * Waits until no thread is in a system call of the agent, since without guards the program may
 * install a seccomp filter unseen. Gives up after GATE_NS: a thread that jumped out of such a call
 * never leaves it. Meanwhile pump empties buffers, so that threads that wait for room go on and
 * leave the cores to others.
 */
static void close_gate(const struct detach *detach)
{
	uint64_t now_ns = clock_mono_ns(), end_ns = now_ns + GATE_NS, pump_ns = now_ns;

	/* A full barrier: agent/gate.h. */
	__atomic_exchange_n(&image_config(detach->image)->stop, 1, __ATOMIC_SEQ_CST);
	for (; is_calling(detach->image) && now_ns < end_ns; now_ns = clock_mono_ns()) {
		if (now_ns >= pump_ns) {
			pump(detach);
			pump_ns = clock_mono_ns() + GATE_PUMP_NS;
		}
		clock_sleep_ns(GATE_STEP_NS);
	}
}

struct ht_err *detach_untap(struct detach *detach, struct detach_report *ret)
{
	*ret = (struct detach_report){0};
	/* On a busy machine each step of ours would wait for a time slice of every computing
	 * thread. */
	int before = priority_raise();
	journal_set_phase(&detach->journal, JOURNAL_DETACHING);
	struct ht_err *err = image_disable_hooks(detach->image);
	close_gate(detach);
	err = ht_err_first(err, image_disable_all(detach->image));
	err = ht_err_first(err, patch_untap_all(detach->proc, &detach->journal, &ret->patch));
	if (!err && detach->image->forked)
		err = untap_strays(detach);
	priority_restore(before);
	return err;
}

static struct stackscan_ranges ranges_of(const struct detach *detach)
{
	raddr_t base = detach->image->base;
	const struct journal_header *h = detach->journal.header;
	struct stackscan_ranges ranges = {
		.text_lo = base + ABI_THUNKS_OFF,
		.text_hi = base + ABI_TEXT_OFF + ABI_TEXT_MAX,
		.thunk_lo = detach->image->thunks,
		.thunk_hi = detach->image->thunks + HT_PAGE_BYTES,
		.slack_lo = h->slack,
		.slack_hi = h->slack + h->slack_bytes,
		.slack_left = h->slack_left,
	};
	memcpy(ranges.near, h->near, sizeof(ranges.near));
	return ranges;
}

static struct prove prove_of(struct detach *detach, struct books *books)
{
	raddr_t base = detach->image->base;
	return (struct prove){
		.threads = {.proc = detach->proc,
			.ranges = ranges_of(detach),
			.filtered = detach->suspend_seccomp,
			.real = books_real,
			.books = books_of,
			.frames = books_frames,
			.context = books},
		.own_lo = base,
		.own_hi = base + detach->image->bytes,
		.deadline_mono_ns = detach->deadline_mono_ns,
		.pump = detach->pump,
		.context = detach->context,
	};
}

static const char *why_not_proven(const struct proc *proc, const struct quiesce_report *threads)
{
	const char *why = standstill_reason(proc);
	return why ? why : threads->why ? threads->why : "unknown";
}

struct ht_err *detach_slack(const struct proc *proc, const struct remote_slack *slack,
	bool suspend_seccomp, uint64_t deadline_mono_ns)
{
	uint64_t least_mono_ns = clock_mono_ns() + SLACK_LEAST_NS;
	struct prove prove = {
		.threads = {.proc = proc,
			.ranges = {.slack_lo = slack->addr, .slack_hi = slack->addr + slack->bytes},
			.filtered = suspend_seccomp,
			.books = quiesce_calls_nothing},
		.deadline_mono_ns =
			deadline_mono_ns > least_mono_ns ? deadline_mono_ns : least_mono_ns};
	struct prove_report report;
	HT_TRY(prove_outside(&prove, &report));
	if (!report.outside)
		return ht_err_new(HT_ERR_INCOMPLETE,
			"thread %d may still return into heaptap's attach code (%s); its %zu bytes "
			"stay behind the code at %lx and do no harm",
			report.threads.tid, why_not_proven(proc, &report.threads), slack->bytes,
			(unsigned long)slack->addr);
	return remote_slack_restore(proc, slack);
}

/* --- unmapping
 * ---------------------------------------------------------------------------------------- */

static struct remote_slack slack_of(const struct detach *detach)
{
	const struct journal_header *h = detach->journal.header;
	struct remote_slack slack = {.addr = h->slack, .bytes = h->slack_bytes};
	memcpy(slack.original, h->slack_original, sizeof(slack.original));
	return slack;
}

static struct ht_err *leave_slack(const struct detach *detach, const struct remote_slack *slack)
{
	return detach_slack(detach->proc, slack, detach->suspend_seccomp, detach->deadline_mono_ns);
}

/* Is the thunk page that of an earlier capture? */
static bool is_adopted(const struct detach *detach)
{
	const struct journal_header *h = detach->journal.header;
	return h->thunks != h->image + ABI_THUNKS_OFF;
}

/* The jump page of an earlier capture is mapped from that capture's memfd. */
static bool is_adopted_page(const struct detach *detach, const struct proc_map *map)
{
	raddr_t thunks = detach->journal.header->thunks;
	return is_adopted(detach) && map->lo == thunks && map->hi == thunks + HT_PAGE_BYTES &&
	       ours_is(map->name);
}

/* Is this the image's state page, its only mapping without a file? The page holds a small number at
 * its start, and zeros. */
static struct ht_err *is_state_page(
	const struct detach *detach, const struct proc_map *map, bool *ret)
{
	uint64_t word[HT_PAGE_BYTES / sizeof(uint64_t)];
	size_t got = 0, i = 1;

	*ret = !map->inode && map->lo == detach->journal.header->image + ABI_STATE_OFF &&
	       map->hi == map->lo + sizeof(word);
	if (!*ret)
		return NULL;
	struct ht_err *err = memory_read_some(detach->proc, map->lo, word, sizeof(word), &got);
	while (i < HT_ARRAY_SIZE(word) && word[i] == 0)
		i++;
	*ret = !err && got == sizeof(word) && word[0] <= ABI_MUTE && i == HT_ARRAY_SIZE(word);
	return err;
}

static struct ht_err *map_is_ours(
	const struct detach *detach, const struct proc_map *map, bool *ret)
{
	const struct image_file *memfd = &detach->image->file;
	*ret = map->inode && map->inode == memfd->inode &&
	       makedev(map->dev_major, map->dev_minor) == memfd->dev;
	if (!*ret)
		*ret = is_adopted_page(detach, map);
	return *ret ? NULL : is_state_page(detach, map, ret);
}

static bool is_to_go(const struct stub_unmap *what, const struct proc_map *map)
{
	for (size_t i = 0; i < HT_ARRAY_SIZE(what->lo); i++)
		if (map->lo < what->hi[i] && map->hi > what->lo[i])
			return true;
	return false;
}

static struct ht_err *check_map(const struct detach *detach, const struct proc_map *map)
{
	bool ours;
	struct ht_err *err = map_is_ours(detach, map, &ours);
	return err || ours ? err
			   : ht_err_new(HT_ERR_INCOMPLETE,
				     "the mapping at %lx in process %d is no longer heaptap's code",
				     (unsigned long)map->lo, detach->proc->pid);
}

static struct ht_err *check_all(const struct detach *detach, const struct stub_unmap *what)
{
	HT_CLEANUP(proc_maps_deinit) struct proc_maps maps = {0};
	HT_TRY(proc_maps_read(detach->proc, &maps));
	for (size_t i = 0; i < maps.count; i++)
		if (is_to_go(what, &maps.map[i]))
			HT_TRY(check_map(detach, &maps.map[i]));
	return NULL;
}

static struct ht_err *check_range(const struct detach *detach, raddr_t lo, raddr_t hi)
{
	HT_CLEANUP(proc_lookup_end) struct proc_lookup lookup = {.fd = -1};
	HT_TRY(proc_lookup_begin(detach->proc, &lookup));
	while (lo < hi) {
		struct proc_map map;
		bool found;
		HT_TRY(proc_lookup_next(&lookup, lo, &map, &found));
		if (!found || map.lo >= hi)
			break;
		HT_TRY(check_map(detach, &map));
		lo = map.hi;
	}
	return NULL;
}

/*
 * Are these ranges still mappings of ours? The target may have unmapped parts of the image and
 * mapped something else. A jump page of an earlier capture is identified by its name, which only a
 * reading of all mappings gives; without such a page that reading is avoided, since a thread may be
 * held meanwhile.
 */
static struct ht_err *check_ours(const struct detach *detach, const struct stub_unmap *what)
{
	if (is_adopted(detach))
		return check_all(detach, what);
	for (size_t i = 0; i < HT_ARRAY_SIZE(what->lo); i++)
		if (what->lo[i] < what->hi[i])
			HT_TRY(check_range(detach, what->lo[i], what->hi[i]));
	return NULL;
}

struct remains {
	const struct detach *detach;
	bool keep;   /* the jump page */
	pid_t table; /* close only what is in this thread's own table; 0: in the process's */
};

static void add_range(struct stub_unmap *what, size_t *count, raddr_t lo, uint64_t bytes)
{
	what->lo[*count] = lo;
	what->hi[*count] = lo + bytes;
	++*count;
}

/* Finds what is still mapped or open of ours. */
static struct ht_err *find_remains(const struct remains *remains, struct stub_unmap *ret)
{
	const struct detach *detach = remains->detach;
	const struct journal_header *h = detach->journal.header;
	bool adopted = is_adopted(detach);

	size_t count = 0;
	*ret = (struct stub_unmap){0};
	if (remains->table)
		return ownfds_find_of(detach->proc, remains->table, h, ret->fd, &ret->fd_count);
	/* Unmap the near areas before the image, since a search for leftovers starts from the
	 * image. */
	for (size_t i = 0; i < ABI_NEAR_MAX && h->near[i]; i++)
		add_range(ret, &count, h->near[i], ABI_NEAR_BYTES);
	add_range(ret, &count, h->image, h->image_bytes);
	if (remains->keep && !adopted && count)
		ret->lo[count - 1] += HT_PAGE_BYTES;
	if (adopted && !remains->keep)
		add_range(ret, &count, h->thunks, HT_PAGE_BYTES);
	HT_TRY(ownfds_find(detach->proc, h, detach->image->forked, ret->fd, &ret->fd_count));
	return check_ours(detach, ret);
}

static struct ht_err *look_at_remains(void *context, pid_t tid, struct stub_unmap *ret)
{
	const struct remains *remains = context;
	const struct detach *detach = remains->detach;
	HT_TRY(find_remains(remains, ret));
	return ownfds_mark(detach->proc, tid, remains->table != 0, detach->journal.header, ret->fd,
		&ret->fd_count);
}

static void note_stop(struct detach_report *report, const struct remote_unmapped *unmapped)
{
	if (unmapped->stop_ns > report->stop_max_ns)
		report->stop_max_ns = unmapped->stop_ns;
}

/* A descriptor that cannot be closed must not stop the rest; the comparison names it. */
static struct ht_err *close_table(struct detach *detach, pid_t tid, struct detach_report *report)
{
	struct remote_slack slack = slack_of(detach);
	struct remains remains = {.detach = detach, .table = tid};
	const struct remote_remains look = {
		.look = look_at_remains, .context = &remains, .table = tid};
	struct stub_unmap what;
	struct remote_unmapped unmapped = {0};
	struct ht_err *err = find_remains(&remains, &what);

	if (!err && what.fd_count == 0)
		return NULL;
	HT_THEN(err, remote_unmap(detach->proc, &slack, &look, detach->suspend_seccomp, &unmapped));
	ht_err_free(err);
	note_stop(report, &unmapped);
	return leave_slack(detach, &slack);
}

/* A thread that got a descriptor table of its own during the capture has copies of our
 * descriptors. */
static struct ht_err *close_elsewhere(struct detach *detach, struct detach_report *report)
{
	HT_CLEANUP(proc_tids_deinit) struct proc_tids tables = {0};
	HT_TRY(descriptor_tables(detach->proc, &tables));
	for (size_t i = 0; i < tables.count; i++)
		if (clock_mono_ns() < detach->deadline_mono_ns)
			HT_TRY(close_table(detach, tables.tid[i], report));
	return NULL;
}

/* `ret_out`: if no thread was in the stub's place before, none is now. */
static struct ht_err *unmap(
	struct detach *detach, bool keep, struct detach_report *report, bool *ret_out)
{
	struct remote_slack slack = slack_of(detach);
	struct remains remains = {.detach = detach, .keep = keep};
	const struct remote_remains look = {.look = look_at_remains, .context = &remains};
	struct remote_unmapped unmapped = {0};
	struct stub_unmap what;
	int before = priority_raise();

	/* Look before a thread is stopped: what cannot be unmapped is not worth the stop. */
	struct ht_err *err = find_remains(&remains, &what);
	HT_THEN(err, close_elsewhere(detach, report));
	for (unsigned attempt = 0; !err; attempt++) {
		err = remote_unmap(detach->proc, &slack, &look, detach->suspend_seccomp, &unmapped);
		if (!err || err->code != HT_ERR_INCOMPLETE || attempt == UNMAP_ATTEMPTS - 1)
			break;
		/* A signal handler jumped away before the stub began. Try again when the place is
		 * empty. */
		ht_err_free(err);
		err = leave_slack(detach, &slack);
		HT_THEN(err, find_remains(&remains, &what));
	}
	priority_restore(before);
	note_stop(report, &unmapped);
	*ret_out = unmapped.is_out;
	return err;
}

struct ht_err *detach_remains(struct detach *detach, bool *ret_any)
{
	struct remote_slack slack = slack_of(detach);
	int fd[STUB_UNMAP_FDS];
	size_t fd_count = 0;
	struct detach_report report = {0};
	bool out = false, before = false;
	struct ht_err *err = remote_slack_holds_stub(detach->proc, &slack, &before);

	HT_THEN(err, ownfds_find(detach->proc, detach->journal.header, true, fd, &fd_count));
	if (!err && fd_count > 0)
		err = unmap(detach, true, &report, &out);
	*ret_any = before || fd_count > 0;
	/* As at the end of detach_unmap. */
	if (!err && out && !before)
		return remote_slack_restore(detach->proc, &slack);
	return err || !*ret_any ? err : leave_slack(detach, &slack);
}

static void explain(
	const struct detach *detach, struct detach_report *report, enum detach_level level)
{
	report->level = level;
	if (level == DETACH_TOMBSTONE && report->unread_bytes && !report->escaped)
		snprintf(report->why, sizeof(report->why),
			"one page of 4 KiB stays: %lu KiB of the process's memory (swapped out, or "
			"not readable) could not be searched for addresses of allocator functions. "
			"It is harmless; `heaptap cleanup` tries again",
			(unsigned long)(report->unread_bytes >> 10));
	else if (level == DETACH_TOMBSTONE)
		snprintf(report->why, sizeof(report->why),
			"one page of 4 KiB stays: the process keeps %zu addresses of allocator "
			"functions (one at 0x%lx). It is harmless; `heaptap cleanup` removes it "
			"when they are gone",
			report->escaped, (unsigned long)report->escaped_at);
	else if (level == DETACH_INCOMPLETE)
		snprintf(report->why, sizeof(report->why),
			"thread %d may still return into heaptap's code (%s): the code stays "
			"mapped and only forwards calls",
			report->quiesce.tid, why_not_proven(detach->proc, &report->quiesce));
}

/*
 * May a hook's address be outside its slot? The code of loaded modules shows whether it loads hooks
 * into registers. Nothing is known of code that was unloaded, of users of an earlier capture's
 * page, and of a program that replaced the word in a slot, as it keeps the word that it read there.
 */
static struct ht_err *may_have_escaped(
	struct detach *detach, const struct detach_report *report, bool *ret)
{
	HT_CLEANUP(modules_deinit) struct modules modules = {0};
	HT_CLEANUP(slots_deinit) struct slots slots = {0};

	*ret = report->patch.changed || report->patch.unloaded || is_adopted(detach);
	if (*ret)
		return NULL;
	HT_TRY(read_slots(detach, &modules, &slots));
	/* The slots are restored by now, so escape_is_possible asks the journal which of them led
	 * to hooks. */
	return escape_is_possible(detach->proc, &modules, &slots, &detach->journal, ret);
}

struct ht_err *detach_unmap(struct detach *detach, struct detach_report *ret)
{
	uint64_t start = clock_mono_ns();
	struct books books = books_make(detach->image, detach->proc);
	struct prove prove = prove_of(detach, &books);
	struct prove_report proof;
	bool escapes = false;

	/* Let threads that wait for buffer room go on before anything slow is done. */
	pump(detach);
	/* Memory that is not read, to avoid a stall, may hold anything. */
	bool blind = slow_is_avoided();
	struct ht_err *err = blind ? NULL : may_have_escaped(detach, ret, &escapes);
	escapes |= blind;
	HT_THEN(err, escapes ? prove_forgotten(&prove, &proof) : prove_unkept(&prove, &proof));
	/* A debugging or interposing library that finds slots by the ELF tables stores what it
	 * reads in them, and its code does not show that. */
	if (!err && !escapes && proof.pointers)
		err = prove_forgotten(&prove, &proof);
	if (err)
		return err;
	ret->quiesce = proof.threads;
	ret->stop_max_ns = proof.threads.stop_max_ns;
	ret->escaped = proof.pointers;
	ret->escaped_at = proof.pointer_at;
	ret->found = proof.found;
	ret->unread_bytes = proof.unread_bytes;
	if (!proof.outside) {
		explain(detach, ret, DETACH_INCOMPLETE);
		return NULL;
	}
	bool keep = blind || ret->escaped > 0 || ret->unread_bytes > 0;
	if (keep) {
		explain(detach, ret, DETACH_TOMBSTONE);
		journal_set_phase(&detach->journal, JOURNAL_TOMBSTONE);
	} else {
		ret->level = clock_mono_ns() - start > PROMPT_NS ? DETACH_RETRIED : DETACH_PROVEN;
	}
	struct remote_slack slack = slack_of(detach);
	bool out = false;
	HT_TRY(unmap(detach, keep, ret, &out));
	/* Every thread was seen outside the stub's place, and only the stub's own thread was sent
	 * there since, which is out again. */
	if (out)
		return remote_slack_restore(detach->proc, &slack);
	/* The stub's thread may still have to run the last instructions, or they may be saved as a
	 * PC in a signal frame. */
	return leave_slack(detach, &slack);
}
