/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/undo/children.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "attach/memory/stalled.h"
#include "attach/proc/clock.h"
#include "attach/proc/permission.h"
#include "attach/proc/proc_tids.h"
#include "attach/process/kin.h"
#include "attach/process/lock.h"
#include "attach/process/proc_open.h"

#define RETRY_PAUSE_NS	   (20 * CLOCK_NS_PER_MS)
#define RETRY_PAUSE_MAX_NS CLOCK_NS_PER_S
#define PURSUITS_MAX	   32u

static void note_left(struct children_report *report, pid_t pid, const char *why)
{
	if (report->left < CHILDREN_NAMED_MAX)
		report->named[report->left] = pid;
	report->left++;
	if (why[0])
		snprintf(report->why, sizeof(report->why), "%s", why);
}

/* Counts the jump page that stays in `child`. Counts nothing if the process has exec'd or ended
 * meanwhile. */
static void note_page(struct children_report *report, const struct proc *child)
{
	struct ourmaps found;
	bool is_page = !ht_err_drop(ourmaps_read(child, &found)) && found.tombstone;
	if (is_page && report->pages < CHILDREN_NAMED_MAX)
		report->page[report->pages] = (struct children_page){
			.pid = child->pid, .start_ticks = child->start_ticks, .page = found.base};
	report->pages += is_page;
}

/* `shares`: the child runs in the target's own memory, so its mappings are the target's. */
static struct ht_err *clean_one(const struct children_options *options, struct proc *child,
	bool shares, struct children_report *report)
{
	const struct recover_options recover = {.slack = options->slack,
		.own = options->journal,
		.deadline_mono_ns = options->deadline_mono_ns};
	struct recover_report recovered = {.outcome = RECOVER_NOTHING};
	struct ourmaps found;
	struct lock lock;
	HT_TRY(ourmaps_read(child, &found));
	/* The image or page is not from the capture that is cleaned: the child shares the target's
	 * memory, or another heaptap attached to it. */
	bool others = shares || found.daemon_pid != options->daemon_pid;
	if (found.image && others)
		return NULL;
	HT_TRY(proc_open_mem(child));
	HT_TRY(stalled_avoid(child));
	/* A jump page alone, if the target or an earlier capture owns it, does not show whether the
	 * child has a stub or descriptors of this capture. A child without either must not be
	 * locked: another heaptap may want to attach to it. */
	bool marked = found.image || (found.tombstone && !others);
	bool remains = marked;
	if (!marked)
		HT_TRY(recover_has_remains(child, &recover, options->daemon_pid, &remains));
	if (!remains)
		return NULL;
	/* Wait for the lock only if a mark shows leftovers of this capture. Otherwise the stub
	 * may be another heaptap's: if that heaptap holds the lock, the child is looked at again
	 * later. */
	HT_TRY(lock_take_beside(child, options->target, marked, &lock));
	struct ht_err *err = recover_forked(child, &recover, options->daemon_pid, &recovered);
	lock_release(&lock);
	if (err)
		return err;
	bool stays = recovered.outcome == RECOVER_TOMBSTONE && others;
	report->cleaned += recovered.outcome == RECOVER_DONE || stays;
	report->pending += recovered.outcome == RECOVER_INCOMPLETE;
	if (recovered.outcome == RECOVER_TOMBSTONE && !stays)
		note_page(report, child);
	if (recovered.outcome == RECOVER_INCOMPLETE)
		note_left(report, child->pid, recovered.detach.why);
	return NULL;
}

/* An attempt that is forbidden now stays forbidden. */
static bool is_forbidden(const struct ht_err *err)
{
	return err->code == HT_ERR_PERMISSION || err->sys == EACCES || err->sys == EPERM;
}

static void note_failed(
	struct children_report *report, const struct proc *child, struct ht_err *err)
{
	if (is_forbidden(err)) {
		ht_err_free(err);
		err = permission_explain(child);
	} else {
		report->pending++;
	}
	if (err->code != HT_ERR_TARGET_GONE)
		note_left(report, child->pid, err->message);
	ht_err_free(err);
}

/* False: the process ended, or became another program, before heaptap had seen all of it. */
static bool clean_pid(
	const struct children_options *options, pid_t pid, struct children_report *report)
{
	HT_CLEANUP(proc_close) struct proc child = {0};
	struct ht_err *err = proc_open(pid, &child);

	if (err) {
		bool there = err->code == HT_ERR_SYS;
		if (there)
			note_left(report, pid, err->message);
		report->pending += there;
		ht_err_free(err);
		return there;
	}
	bool shares;
	err = kin_shares(options->target, pid, &shares);
	HT_THEN(err, clean_one(options, &child, shares, report));
	bool seen = !err || proc_changed(&child) == PROC_SAME;
	if (err && seen)
		note_failed(report, &child, err);
	else
		ht_err_free(err);
	return seen;
}

/* Newest first: a short-lived process must be seen before it ends and leaves a child of its own. */
static bool clean_all(const struct children_options *options, const struct proc_tids *heirs,
	struct children_report *report)
{
	bool seen = true;
	for (size_t i = heirs->count; i-- > 0;)
		seen &= clean_pid(options, heirs->tid[i], report);
	return seen;
}

/* A process that shared the target's memory, and ended while it was being cleaned, may have left
 * the stub in that memory. */
static void look_at_target(const struct children_options *options, struct children_report *report)
{
	const struct proc *target = options->target;
	bool stub = false;
	struct ht_err *err = remote_slack_holds_stub(target, options->slack, &stub);
	if (!err && stub)
		err = recover_slack(target, options->slack, options->deadline_mono_ns);
	if (err && stub && proc_changed(target) == PROC_SAME)
		note_left(report, target->pid, err->message);
	ht_err_free(err);
}

/*
 * A child that was forked after the listing is found in the next one, when its parent is clean. So
 * the processes are listed again as long as one was cleaned, or one that was listed ended, as it
 * may have left a child. A clean target may fork short-lived children for ever: PURSUITS_MAX ends
 * the pursuit of these.
 */
struct ht_err *children_clean(const struct children_options *options, struct children_report *ret)
{
	struct children_report report = {0};
	uint64_t pause_ns = RETRY_PAUSE_NS;
	for (unsigned pursuits = 0;;) {
		struct proc_tids heirs;
		size_t cleaned = report.cleaned;
		HT_TRY(kin_forked(options->target, &heirs));
		report.left = report.pages = report.pending = 0;
		bool seen = clean_all(options, &heirs, &report);
		proc_tids_deinit(&heirs);
		bool pursue = !seen && pursuits++ < PURSUITS_MAX;
		bool settled = report.pending == 0 && report.cleaned == cleaned && !pursue;
		if (settled || clock_mono_ns() > options->deadline_mono_ns)
			break;
		if (report.cleaned != cleaned || pursue)
			continue;
		clock_sleep_ns(pause_ns);
		pause_ns = pause_ns * 2 > RETRY_PAUSE_MAX_NS ? RETRY_PAUSE_MAX_NS : pause_ns * 2;
	}
	look_at_target(options, &report);
	*ret = report;
	return NULL;
}

static void clean_once(const struct proc *parent, const struct heritage *heritage, pid_t pid,
	uint64_t deadline_mono_ns, struct children_report *ret)
{
	for (; heritage; heritage = heritage->next)
		clean_pid(&(struct children_options){.target = parent,
				  .daemon_pid = heritage->daemon_pid,
				  .journal = heritage->journal,
				  .slack = heritage->slack,
				  .deadline_mono_ns = deadline_mono_ns},
			pid, ret);
}

void children_clean_inherited(const struct proc *parent, const struct heritage *heritage, pid_t pid,
	uint64_t deadline_mono_ns, struct children_report *ret)
{
	for (;;) {
		*ret = (struct children_report){0};
		clean_once(parent, heritage, pid, deadline_mono_ns, ret);
		if (!ret->pending || clock_mono_ns() > deadline_mono_ns)
			return;
		clock_sleep_ns(RETRY_PAUSE_NS);
	}
}

void children_name(const struct children_report *report, char ret[CHILDREN_TEXT_BYTES])
{
	size_t length = (size_t)snprintf(ret, CHILDREN_TEXT_BYTES,
		"heaptap's code may be left in children forked during the capture; it only "
		"forwards calls (%.200s); heaptap verify -p shows how to remove it from:",
		report->left ? report->why : "one page of 4 KiB stays, harmless");
	for (size_t i = 0; i < report->left && i < CHILDREN_NAMED_MAX; i++)
		length += (size_t)snprintf(
			ret + length, CHILDREN_TEXT_BYTES - length, " %d", report->named[i]);
	for (size_t i = 0; i < report->pages && i < CHILDREN_NAMED_MAX; i++)
		length += (size_t)snprintf(
			ret + length, CHILDREN_TEXT_BYTES - length, " %d", report->page[i].pid);
	if (report->left > CHILDREN_NAMED_MAX || report->pages > CHILDREN_NAMED_MAX)
		snprintf(ret + length, CHILDREN_TEXT_BYTES - length, " ...");
}
