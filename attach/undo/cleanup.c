/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/undo/cleanup.h"

#include <stdio.h>

#include "attach/elf/modules.h"
#include "attach/memory/proc_maps.h"
#include "attach/proc/clock.h"
#include "attach/undo/guardian.h"
#include "attach/undo/recover.h"

#define DEADLINE_NS (10 * CLOCK_NS_PER_S)

static struct ht_err *prepare_slack(const struct proc *proc, struct remote_slack *ret)
{
	HT_CLEANUP(proc_maps_deinit) struct proc_maps maps = {0};
	HT_CLEANUP(modules_deinit) struct modules modules = {0};
	HT_TRY(proc_maps_read(proc, &maps));
	HT_TRY(modules_read(proc, &maps, &modules));
	return remote_slack_prepare(proc, &modules, &maps, 0, ret);
}

/* The guardian restores the stub's place if heaptap dies meanwhile. */
static struct ht_err *remove_guarded(
	const struct proc *proc, raddr_t page, struct cleanup_report *report)
{
	HT_CLEANUP(journal_destroy) struct journal journal = {0};
	struct guardian guardian;
	struct remote_slack slack;
	uint64_t deadline = clock_mono_ns() + DEADLINE_NS, stop_ns = 0;

	HT_TRY(journal_create(&journal));
	HT_TRY(guardian_start(proc, &journal, NULL, &guardian));
	struct ht_err *err = prepare_slack(proc, &slack);
	HT_THEN(err, guardian_tell_slack(&guardian, &slack));
	if (!err) {
		err = jump_page_remove(proc, page, &slack, deadline, &stop_ns);
		if (err)
			guardian_leave(&guardian);
	}
	if (!guardian_dismiss(&guardian, GUARDIAN_PATIENCE_NS))
		err = ht_err_first(err, ht_err_new(HT_ERR_INCOMPLETE,
						"heaptap's guardian, process %d, has not ended and "
						"may still be at work",
						guardian.pid));
	if (stop_ns > report->found.stop_max_ns)
		report->found.stop_max_ns = stop_ns;
	return err;
}

static void name_place(const struct proc *proc, struct cleanup_report *report)
{
	HT_CLEANUP(proc_maps_deinit) struct proc_maps maps = {0};
	if (ht_err_drop(proc_maps_read(proc, &maps)))
		return;
	const struct proc_map *map = proc_maps_find(&maps, report->found.at);
	if (map)
		snprintf(report->where, sizeof(report->where), "%s",
			map->name[0] ? map->name : "anonymous memory");
}

struct ht_err *cleanup_run(const struct proc *proc, struct cleanup_report *ret)
{
	const struct jump_page_look look = {.deadline_mono_ns = clock_mono_ns() + DEADLINE_NS};
	return cleanup_look(proc, &look, ret);
}

struct ht_err *cleanup_look(
	const struct proc *proc, const struct jump_page_look *look, struct cleanup_report *ret)
{
	struct cleanup_report report = {.outcome = CLEANUP_NOTHING};
	struct ourmaps found;
	HT_TRY(ourmaps_read(proc, &found));
	report.page = found.base;
	report.daemon_pid = found.daemon_pid;
	if (found.image)
		report.outcome = CLEANUP_CAPTURE;
	if (found.image || !found.tombstone) {
		*ret = report;
		return NULL;
	}
	HT_TRY(jump_page_examine(proc, found.base, look, &report.found));
	if (report.found.unused)
		HT_TRY(remove_guarded(proc, found.base, &report));
	report.outcome = report.found.unused ? CLEANUP_REMOVED : CLEANUP_IN_USE;
	if (!report.found.unused)
		name_place(proc, &report);
	*ret = report;
	return NULL;
}
