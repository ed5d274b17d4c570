/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/leftover.h"

#include <stdlib.h>
#include <string.h>

#include "attach/inject/ownfds.h"
#include "attach/target/kin.h"
#include "attach/target/ours.h"

/* What the first descriptor that is a heaptap's leads to. */
struct leftover {
	const struct proc *proc;
	uint64_t inode;	  /* of a socket; 0 */
	pid_t daemon_pid; /* whose memory it is; 0 */
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

/* As in a child, with a journal that knows of nothing else. */
static struct ht_err *close_one(const struct leftover *left)
{
	struct recover_options options = {.memfd = -1};
	struct recover_report report;
	struct remote_slack space;
	struct journal journal;
	struct ht_err *err = journal_create(&journal);
	if (err)
		return err;
	journal_begin(&journal, 0, 0, ABI_THUNKS_OFF);
	journal_set_sockets(&journal, -1, left->inode, 0);
	options.own = &journal;
	err = recover_find_slack(left->proc, true, &space, &options.slack);
	if (!err)
		err = recover_forked(left->proc, &options, left->daemon_pid, &report);
	journal_destroy(&journal);
	return err;
}

static struct ht_err *close_each(const struct proc *proc, bool *ret_any)
{
	struct leftover before = {0};
	for (;;) {
		struct leftover left = {.proc = proc};
		struct ht_err *err = ownfds_visit(proc, find_first, &left);
		if (err || !is_found(&left))
			return err;
		if (left.inode == before.inode && left.daemon_pid == before.daemon_pid)
			return ht_err_new(HT_ERR_INCOMPLETE, "a thread has it for itself");
		err = close_one(&left);
		if (err)
			return err;
		before = left;
		*ret_any = true;
	}
}

static struct ht_err *named(pid_t pid, struct ht_err *err)
{
	struct ht_err *incomplete = ht_err_new(HT_ERR_INCOMPLETE,
		"a descriptor of heaptap's stays in process %d, and does no harm (%s); heaptap "
		"verify -p %d shows it",
		pid, err->message, pid);
	ht_err_free(err);
	return incomplete;
}

static struct ht_err *close_of_sharer(const struct proc *proc, pid_t pid, bool *ret_any)
{
	struct proc sharer;
	bool shares = true;
	struct ht_err *err = proc_open(pid, &sharer);
	if (err) {
		bool gone = err->code == HT_ERR_REFUSED || err->code == HT_ERR_TARGET_GONE;
		if (!gone)
			return named(pid, err);
		ht_err_free(err);
		return NULL;
	}
	err = proc_open_mem(&sharer);
	/* Its number is pinned now, and may have been another's before. */
	if (!err)
		err = kin_shares(proc, pid, &shares);
	if (!err && shares)
		err = close_each(&sharer, ret_any);
	bool gone = err && proc_changed(&sharer) != PROC_SAME;
	proc_close(&sharer);
	if (!gone)
		return err ? named(pid, err) : NULL;
	ht_err_free(err);
	return NULL;
}

static struct ht_err *close_of_sharers(const struct proc *proc, bool *ret_any)
{
	struct proc_tids sharers;
	struct ht_err *err = kin_sharing(proc, &sharers);
	if (err)
		return err;
	for (size_t i = 0; i < sharers.count; i++)
		err = ht_err_first(err, close_of_sharer(proc, sharers.tid[i], ret_any));
	proc_tids_deinit(&sharers);
	return err;
}

struct ht_err *leftover_close(const struct proc *proc, struct recover_report *report)
{
	/* The agent uses it still. */
	if (report->outcome == RECOVER_INCOMPLETE)
		return NULL;
	bool any = false;
	struct ht_err *err = close_each(proc, &any);
	if (err)
		err = named(proc->pid, err);
	err = ht_err_first(err, close_of_sharers(proc, &any));
	if (any && report->outcome == RECOVER_NOTHING)
		report->outcome = RECOVER_DONE;
	return err;
}
