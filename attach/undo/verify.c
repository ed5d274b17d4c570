/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/undo/verify.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attach/elf/modules.h"
#include "attach/inject/ownfds.h"
#include "attach/memory/ours.h"
#include "attach/memory/proc_maps.h"
#include "attach/proc/proc_status.h"
#include "attach/proc/proc_tids.h"
#include "attach/process/lock.h"
#include "attach/process/proc_open.h"
#include "attach/thread/proc_where.h"
#include "attach/undo/recover.h"

struct look {
	const struct proc *proc;
	struct proc_maps maps;
	struct modules modules;
	struct verify_report *report;
	size_t descriptors;
};

static HT_PRINTF(2, 3) void say(char text[VERIFY_TEXT_BYTES], const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, VERIFY_TEXT_BYTES, fmt, args);
	va_end(args);
}

static bool is_ours(const struct proc_map *map)
{
	return map && ours_is(map->name);
}

/* --- mappings
 * ----------------------------------------------------------------------------------- */

static void look_at_mappings(struct look *look)
{
	struct verify_finding *f = &look->report->part[VERIFY_MAPPINGS];
	const struct proc_map *first = NULL;
	size_t count = 0;
	uint64_t bytes = 0;

	for (size_t i = 0; i < look->maps.count; i++) {
		const struct proc_map *map = &look->maps.map[i];
		if (!is_ours(map))
			continue;
		first = first ? first : map;
		bytes += map->hi - map->lo;
		count++;
	}
	f->ours = count > 0;
	if (first)
		say(f->text, "%zu of heaptap, %lu KiB, from %lx on (%.80s)", count,
			(unsigned long)(bytes >> 10), (unsigned long)first->lo, first->name);
	else
		say(f->text, "none of %zu is heaptap's", look->maps.count);
}

/* --- descriptors
 * --------------------------------------------------------------------------------- */

static struct ht_err *look_at_descriptor(void *context, pid_t tid, int number, const char *link)
{
	struct look *look = context;
	struct verify_finding *f = &look->report->part[VERIFY_DESCRIPTORS];
	bool ours;
	struct ht_err *err = ownfds_is_heaptaps(look->proc, tid, number, link, &ours);

	look->descriptors++;
	if (err || !ours)
		return err;
	if (tid)
		say(f->text, "number %d of thread %d is heaptap's (%.80s)", number, tid, link);
	else
		say(f->text, "number %d is heaptap's (%.80s)", number, link);
	f->ours = true;
	return NULL;
}

static struct ht_err *look_at_descriptors(struct look *look)
{
	struct verify_finding *f = &look->report->part[VERIFY_DESCRIPTORS];
	struct ht_err *err = ownfds_visit(look->proc, look_at_descriptor, look);

	if (!f->ours)
		say(f->text, "none of %zu is heaptap's", look->descriptors);
	return err;
}

/* --- slots
 * --------------------------------------------------------------------------------------- */

static struct ht_err *look_at_slots(struct look *look)
{
	struct verify_finding *f = &look->report->part[VERIFY_SLOTS];
	size_t right = 0, tapped = 0, nowhere = 0, foreign = 0;
	raddr_t at = 0;
	HT_CLEANUP(slots_deinit) struct slots slots = {0};
	HT_TRY(slots_read_left(look->proc, &look->modules, &slots));
	for (size_t i = 0; i < slots.count; i++) {
		const struct slot *slot = &slots.slot[i];
		const struct proc_map *map = proc_maps_find(&look->maps, slot->value);
		bool data = slot->verdict == SLOT_DATA || slot->verdict == SLOT_SKIPPED;
		bool other = slot->verdict == SLOT_FOREIGN;
		bool ours = is_ours(map), lost = other && slot->value && !map;
		tapped += ours;
		nowhere += lost;
		foreign += other && !ours && !lost;
		right += !data && !other && !ours;
		if (ours || lost)
			at = slot->addr;
	}
	f->ours = tapped || nowhere;
	if (tapped)
		say(f->text, "%zu lead to heaptap's code, one at %lx", tapped, (unsigned long)at);
	else if (nowhere)
		say(f->text, "%zu lead to unmapped memory, one at %lx", nowhere, (unsigned long)at);
	else
		say(f->text, "%zu hold the allocator functions that they name", right);
	if (foreign)
		say(f->other, "%zu hold functions of another tool, or of the program itself",
			foreign);
	return NULL;
}

/* --- threads
 * ------------------------------------------------------------------------------------- */

/* Only a tracer that is alive counts. */
static struct ht_err *is_heaptap(pid_t pid, bool *ret)
{
	struct proc_status status = {0};
	struct ht_err *err = proc_status_of(pid, &status);
	*ret = !err && strncmp(status.comm, "heaptap", strlen("heaptap")) == 0;
	if (!err || (err->code != HT_ERR_REFUSED && err->code != HT_ERR_TARGET_GONE))
		return err;
	ht_err_free(err);
	return NULL;
}

static struct ht_err *look_at_thread(struct look *look, pid_t tid)
{
	struct verify_finding *f = &look->report->part[VERIFY_THREADS];
	struct proc_status status;
	struct proc_syscall call = {.where = PROC_RUNNING};
	bool lives, ours = false;
	struct ht_err *err = proc_status_listed(look->proc, tid, &status, &lives);
	if (err || !lives)
		return err;
	HT_TRY(proc_syscall_read(look->proc, tid, &call));
	if (status.tracer)
		HT_TRY(is_heaptap(status.tracer, &ours));
	if (ours) {
		say(f->text, "thread %d is held by heaptap %d", tid, status.tracer);
		f->ours = true;
	} else if (status.tracer) {
		say(f->other, "thread %d is traced by process %d, which is not heaptap", tid,
			status.tracer);
	}
	if (call.where == PROC_RUNNING || call.where == PROC_THREAD_GONE)
		return NULL;
	if (!is_ours(proc_maps_find(&look->maps, call.pc)))
		return NULL;
	say(f->text, "thread %d is inside heaptap's code, asleep", tid);
	f->ours = true;
	return NULL;
}

static struct ht_err *look_at_threads(struct look *look)
{
	struct verify_finding *f = &look->report->part[VERIFY_THREADS];
	HT_CLEANUP(proc_tids_deinit) struct proc_tids tids = {0};
	struct ht_err *err = NULL;
	HT_TRY(proc_tids_read(look->proc, &tids));
	for (size_t i = 0; !err && i < tids.count; i++)
		err = look_at_thread(look, tids.tid[i]);
	look->report->threads = (unsigned)tids.count;
	if (!f->ours)
		say(f->text, "none of %zu is held by heaptap or asleep inside it", tids.count);
	return err;
}

/* --- the whole
 * ----------------------------------------------------------------------------------- */

static enum verify_state judge(const struct look *look, const struct ourmaps *found)
{
	bool ours = false;
	for (size_t i = 0; i < VERIFY_PARTS; i++)
		ours |= look->report->part[i].ours;
	if (found->image)
		return lock_is_held(look->proc) ? VERIFY_TAPPED : VERIFY_ABANDONED;
	/* A heaptap that holds the lock is attaching or detaching: a held thread or a stub is its
	 * work, and no leftover. */
	if (ours && lock_is_held(look->proc))
		return VERIFY_TAPPED;
	if (found->tombstone)
		return VERIFY_TOMBSTONE;
	return ours ? VERIFY_REMAINS : VERIFY_CLEAN;
}

static struct ht_err *look_at_all(struct look *look)
{
	struct ourmaps found;
	struct proc_status status;
	HT_TRY(proc_status(look->proc, 0, &status));
	HT_TRY(ourmaps_read(look->proc, &found));
	HT_TRY(look_at_slots(look));
	HT_TRY(look_at_threads(look));
	HT_TRY(verify_code(
		look->proc, &look->maps, &look->modules, &look->report->part[VERIFY_CODE]));
	HT_TRY(look_at_descriptors(look));
	look_at_mappings(look);
	memcpy(look->report->comm, status.comm, sizeof(status.comm));
	look->report->daemon_pid = found.daemon_pid;
	look->report->state = judge(look, &found);
	return NULL;
}

struct ht_err *verify_run(const struct proc *proc, struct verify_report *ret)
{
	*ret = (struct verify_report){0};
	struct look look = {.proc = proc, .report = ret};
	HT_TRY(proc_maps_read(proc, &look.maps));
	struct ht_err *err = modules_read(proc, &look.maps, &look.modules);
	HT_THEN(err, look_at_all(&look));
	modules_deinit(&look.modules);
	proc_maps_deinit(&look.maps);
	/* If the process ended or became another program meanwhile, the result means nothing. */
	struct ht_err *gone = proc_check_same(proc);
	if (gone)
		ht_err_free(err);
	return gone ? gone : err;
}
