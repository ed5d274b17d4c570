/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/capture/leave.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "attach/proc/clock.h"
#include "attach/proc/permission.h"
#include "attach/proc/proc_status.h"
#include "attach/undo/children.h"
#include "attach/undo/recover.h"

struct ht_err *leave_take_out(struct leave *leave)
{
	struct session_report *report = leave->report;
	struct detach detach = {.proc = &leave->survey->proc,
		.image = &leave->inside->image,
		.journal = *leave->journal,
		.modules = &leave->survey->modules,
		.suspend_seccomp = leave->survey->any_seccomp,
		.deadline_mono_ns = clock_mono_ns() + leave->options->detach_deadline_ns,
		.pump = leave->inside->receiver ? leave->pump : NULL,
		.context = leave->context};
	struct detach_report result = {0};
	uint64_t start = clock_mono_ns();

	sink_take_all(leave->sink);
	struct ht_err *err = detach_untap(&detach, &result);
	times_end(leave->times);
	window_report(leave->window, leave->times, report);
	if (!err && !detach.suspend_seccomp)
		err = proc_any_seccomp(&leave->survey->proc, &detach.suspend_seccomp);
	HT_THEN(err, detach_unmap(&detach, &result));
	if (change_noticed(leave->change, &err))
		return NULL;
	report->detach_ns = clock_mono_ns() - start;
	err = permission_lost(&leave->survey->proc, err);
	if (err) {
		result.level = DETACH_INCOMPLETE;
		snprintf(result.why, sizeof(result.why) - REMAINS_HEIR_BYTES, "%s", err->message);
		ht_err_free(err);
	}
	if (result.level == DETACH_INCOMPLETE)
		remains_add_heir(&leave->remains, result.why, sizeof(result.why));
	report->detached = true;
	report->level = result.level;
	memcpy(report->why, result.why, sizeof(report->why));
	report->slots_tapped = result.patch.tapped;
	report->slots_restored = result.patch.restored;
	report->slots_changed = result.patch.changed;
	report->slots_unloaded = result.patch.unloaded;
	report->met = result.quiesce;
	if (result.stop_max_ns > report->stop_ns)
		report->stop_ns = result.stop_max_ns;
	leave->inside->mapped = result.level == DETACH_INCOMPLETE;
	err = residue_compare(leave->residue, &leave->survey->proc, leave->journal,
		result.level == DETACH_TOMBSTONE, &report->verify);
	if (!err && result.level <= DETACH_RETRIED && !report->verify.equal)
		snprintf(report->why, sizeof(report->why), "%s",
			residue_difference(&report->verify));
	if (result.level == DETACH_TOMBSTONE)
		jump_page_left_note(&leave->jump_page_left, &result, report);
	if (change_noticed(leave->change, &err))
		report->detached = false;
	return err;
}

/* Detaches if bring_in failed before there was an image or a journal to detach by. The guardian
 * goes on with what stays. */
static struct ht_err *recover(struct leave *leave)
{
	struct recover_report report = {0};
	char *why = report.detach.why;
	const struct recover_options options = {.memfd = leave->inside->remote.memfd,
		.slack = &leave->inside->slack,
		.own = leave->journal,
		.deadline_mono_ns = clock_mono_ns() + leave->options->detach_deadline_ns};
	struct ht_err *err = recover_run(&leave->survey->proc, &options, &report);
	err = permission_lost(&leave->survey->proc, err);
	bool failed = err != NULL;
	if (err)
		snprintf(why, sizeof(report.detach.why) - REMAINS_HEIR_BYTES, "%s", err->message);
	ht_err_free(err);
	leave->inside->mapped = failed || report.detach.level >= DETACH_TOMBSTONE;
	if (!leave->inside->mapped)
		return NULL;
	if (!failed && report.detach.level == DETACH_TOMBSTONE)
		return ht_err_new(HT_ERR_INCOMPLETE, "%s", why);
	remains_add_heir(&leave->remains, why, sizeof(report.detach.why));
	return remains_of(&leave->remains, why);
}

struct ht_err *leave_roll_back(struct leave *leave)
{
	if (!leave->inside->slack_written || leave->change->is_gone)
		return NULL;
	if (!leave->inside->image.local || !journal_is_begun(leave->journal))
		return recover(leave);
	struct ht_err *err = leave_take_out(leave);
	return err ? err : remains_of_detach(&leave->remains, leave->report);
}

struct ht_err *leave_clean_children(struct leave *leave)
{
	if (!leave->inside->slack_written || (leave->inside->mapped && !leave->change->is_gone))
		return NULL;
	struct ht_err *err = children_clean(
		&(struct children_options){.target = &leave->survey->proc,
			.daemon_pid = getpid(),
			.journal = leave->journal,
			.slack = &leave->inside->slack,
			.deadline_mono_ns = clock_mono_ns() + leave->options->detach_deadline_ns},
		&leave->report->children);
	jump_page_left_add_children(&leave->jump_page_left, leave->report);
	return err;
}
