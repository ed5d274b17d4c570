/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/undo/leftover.h"

#include <stdlib.h>
#include <string.h>

#include "attach/inject/ownfds.h"
#include "attach/memory/ours.h"
#include "attach/proc/clock.h"
#include "attach/proc/proc_tids.h"
#include "attach/process/kin.h"
#include "attach/process/proc_open.h"

#define DEADLINE_NS (30 * CLOCK_NS_PER_S)
#define ROUNDS_MAX  64u /* for a program that goes on making descriptors that look like ours */

/* The first descriptor of heaptap's that was found. */
struct leftover {
	const struct proc *proc;
	uint64_t inode;	  /* of the socket that it is; 0: no socket */
	pid_t daemon_pid; /* of the heaptap whose memfd it is; 0: no memfd */
};

static bool is_found(const struct leftover *left)
{
	return left->inode || left->daemon_pid;
}

static struct ht_err *find_first(void *context, pid_t tid, int fd, const char *link)
{
	struct leftover *left = context;
	bool ours = false;
	if (is_found(left))
		return NULL;
	struct ht_err *err = ownfds_is_heaptaps(left->proc, tid, fd, link, &ours);
	if (!err && ours && ours_is(link))
		left->daemon_pid = (pid_t)strtol(link + strlen(OURS_NAME), NULL, 10);
	else if (!err && ours)
		left->inode = strtoul(link + strcspn(link, "0123456789"), NULL, 10);
	return err;
}

/* Closes `left` as in a forked child, with a journal that names nothing else. `ret`:
 * RECOVER_NOTHING if the descriptor is not in the table that the threads share. */
static struct ht_err *close_one(
	const struct leftover *left, uint64_t deadline_mono_ns, enum recover_outcome *ret)
{
	struct recover_options options = {.memfd = -1, .deadline_mono_ns = deadline_mono_ns};
	struct recover_report report = {.outcome = RECOVER_NOTHING};
	struct remote_slack space;
	HT_CLEANUP(journal_destroy) struct journal journal = {0};
	HT_TRY(journal_create(&journal));
	journal_begin(&journal, 0, 0, ABI_THUNKS_OFF);
	journal_set_sockets(&journal, -1, left->inode, 0);
	options.own = &journal;
	struct ht_err *err = recover_find_slack(left->proc, true, &space, &options.slack);
	HT_THEN(err, recover_forked(left->proc, &options, left->daemon_pid, &report));
	*ret = report.outcome;
	return err;
}

static struct ht_err *stays(pid_t pid, const char *why)
{
	return ht_err_new(HT_ERR_INCOMPLETE,
		"a descriptor of heaptap is left in process %d and does no harm (%s); heaptap "
		"verify -p %d shows it",
		pid, why, pid);
}

static struct ht_err *cannot_be_told(pid_t pid, const char *why)
{
	return ht_err_new(HT_ERR_INCOMPLETE,
		"a descriptor of heaptap may be left in process %d, where it does no harm (%s)",
		pid, why);
}

/* Finds the first descriptor of heaptap's, if any. Descriptors that cannot be read must not keep
 * the others from being closed: they are an error only if none was found. */
static struct ht_err *look(const struct proc *proc, struct leftover *ret)
{
	*ret = (struct leftover){.proc = proc};
	struct ht_err *unread = ownfds_visit(proc, find_first, ret);
	bool unknown = unread && !is_found(ret);
	struct ht_err *err = unknown ? cannot_be_told(proc->pid, unread->message) : NULL;
	ht_err_free(unread);
	return err;
}

static struct ht_err *close_found(const struct leftover *left, const struct leftover *before,
	uint64_t deadline_mono_ns, bool *ret_any)
{
	bool again = left->inode == before->inode && left->daemon_pid == before->daemon_pid;
	enum recover_outcome outcome = RECOVER_NOTHING;
	struct ht_err *failed = close_one(left, deadline_mono_ns, &outcome), *err = NULL;
	if (failed)
		err = stays(left->proc->pid, failed->message);
	else if (again && outcome != RECOVER_DONE)
		err = stays(left->proc->pid, "one thread has a descriptor table of its own");
	*ret_any |= outcome == RECOVER_DONE;
	ht_err_free(failed);
	return err;
}

static struct ht_err *close_each(const struct proc *proc, uint64_t deadline_mono_ns, bool *ret_any)
{
	struct leftover left, before = {0};
	for (unsigned round = 0; round < ROUNDS_MAX; round++) {
		struct ht_err *err = look(proc, &left);
		if (err || !is_found(&left))
			return err;
		if (clock_mono_ns() > deadline_mono_ns)
			break;
		HT_TRY(close_found(&left, &before, deadline_mono_ns, ret_any));
		before = left;
	}
	return stays(proc->pid, "there are more descriptors than heaptap could close in time");
}

/* As close_each. A process that has ended, or runs another program, has closed its descriptors: no
 * error. */
static struct ht_err *close_of(const struct proc *proc, uint64_t deadline_mono_ns, bool *ret_any)
{
	struct ht_err *err = close_each(proc, deadline_mono_ns, ret_any);
	if (!err || proc_changed(proc) == PROC_SAME)
		return err;
	ht_err_free(err);
	return NULL;
}

static struct ht_err *close_of_sharer(
	const struct proc *proc, pid_t pid, uint64_t deadline_mono_ns, bool *ret_any)
{
	HT_CLEANUP(proc_close) struct proc sharer = {0};
	bool shares = true;
	struct ht_err *failed = proc_open(pid, &sharer), *err = NULL;
	if (failed) {
		bool gone = failed->code == HT_ERR_REFUSED || failed->code == HT_ERR_TARGET_GONE;
		err = gone ? NULL : cannot_be_told(pid, failed->message);
		ht_err_free(failed);
		return err;
	}
	failed = proc_open_mem(&sharer);
	/* `pid` may have been reused before proc_open pinned it: ask again. */
	HT_THEN(failed, kin_shares(proc, pid, &shares));
	if (!failed && shares)
		err = close_of(&sharer, deadline_mono_ns, ret_any);
	else if (failed && proc_changed(&sharer) == PROC_SAME)
		err = cannot_be_told(pid, failed->message);
	ht_err_free(failed);
	return err;
}

/* `none`: nothing of heaptap's was found in `proc`. Then it is no error if a process cannot be
 * compared with `proc`. */
static struct ht_err *close_of_sharers(
	const struct proc *proc, bool none, uint64_t deadline_mono_ns, bool *ret_any)
{
	HT_CLEANUP(proc_tids_deinit) struct proc_tids sharers = {0};
	struct ht_err *err = kin_sharing(proc, &sharers);
	if (err && (err->code == HT_ERR_TARGET_GONE || (none && err->code == HT_ERR_INCOMPLETE))) {
		ht_err_free(err);
		return NULL;
	}
	if (err)
		return err;
	for (size_t i = 0; i < sharers.count; i++)
		err = ht_err_first(
			err, close_of_sharer(proc, sharers.tid[i], deadline_mono_ns, ret_any));
	return err;
}

struct ht_err *leftover_close(const struct proc *proc, struct recover_report *report)
{
	/* The agent stays mapped and still uses its socket. */
	if (report->outcome == RECOVER_INCOMPLETE)
		return NULL;
	bool any = false;
	uint64_t deadline_mono_ns = clock_mono_ns() + DEADLINE_NS;
	struct ht_err *err = close_of(proc, deadline_mono_ns, &any);
	bool none = report->outcome == RECOVER_NOTHING && !any;
	err = ht_err_first(err, close_of_sharers(proc, none, deadline_mono_ns, &any));
	if (any && report->outcome == RECOVER_NOTHING)
		report->outcome = RECOVER_DONE;
	return err;
}
