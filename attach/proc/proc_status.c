/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/proc/proc_status.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/proc/clock.h"
#include "attach/proc/proc_file.h"
#include "attach/proc/proc_living.h"
#include "attach/proc/proc_tids.h"

#define STAT_MAX_BYTES 2048u
#define STAT_NAME      2u
#define STAT_START     22u
#define STAT_CORE      39u

struct ht_err *proc_status(const struct proc *proc, pid_t tid, struct proc_status *ret)
{
	char path[PROC_PATH_BYTES], *text;
	pid_t tgid;
	snprintf(path, sizeof(path), "task/%d/status", tid);
	HT_TRY(tid ? proc_file_read(proc, path, PROC_STATUS_BYTES, &text, NULL)
		   : proc_file_read_living(proc, "status", PROC_STATUS_BYTES, &text, NULL));
	struct ht_err *err = proc_status_parse(proc, text, ret, &tgid);
	free(text);
	return err;
}

struct ht_err *proc_status_listed(
	const struct proc *proc, pid_t tid, struct proc_status *ret, bool *ret_lives)
{
	struct ht_err *err = proc_status(proc, tid, ret);
	bool unseen = err && (err->code == HT_ERR_TARGET_GONE || err->sys == ENOENT), there = true;

	*ret_lives = !err;
	if (!unseen)
		return err;
	struct ht_err *looked = proc_has_thread(proc, tid, &there);
	if (looked || there)
		return ht_err_first(err, looked);
	ht_err_free(err);
	return NULL;
}

struct ht_err *proc_any_seccomp(const struct proc *proc, bool *ret)
{
	struct proc_tids tids;
	struct ht_err *err = NULL;
	bool any = false;
	HT_TRY(proc_tids_read(proc, &tids));
	for (size_t i = 0; !err && !any && i < tids.count; i++) {
		struct proc_status status;
		bool lives;
		err = proc_status_listed(proc, tids.tid[i], &status, &lives);
		any = !err && lives && status.seccomp != 0;
	}
	proc_tids_deinit(&tids);
	if (!err)
		*ret = any;
	return err;
}

pid_t proc_ns_tid(const struct proc *proc, pid_t tid)
{
	struct proc_status status;
	return ht_err_drop(proc_status(proc, tid, &status)) ? 0 : status.ns_tid;
}

/* Points at the given field of a thread's stat, within `text`; NULL: the thread has ended. */
static const char *stat_field(
	const struct proc *proc, pid_t tid, unsigned field, char text[STAT_MAX_BYTES])
{
	char path[PROC_PATH_BYTES];
	snprintf(path, sizeof(path), "task/%d/stat", tid);
	(void)proc_file_short(proc->dir_fd, path, text, STAT_MAX_BYTES);
	/* The name in parentheses may contain spaces. */
	const char *at = strrchr(text, ')');
	for (unsigned i = STAT_NAME; at && i < field; i++)
		at = strchr(at + 1, ' ');
	return at;
}

int proc_core(const struct proc *proc, pid_t tid)
{
	char text[STAT_MAX_BYTES];
	const char *at = stat_field(proc, tid, STAT_CORE, text);
	return at ? (int)strtol(at, NULL, 10) : -1;
}

uint64_t proc_age_ns(const struct proc *proc, pid_t tid)
{
	char text[STAT_MAX_BYTES];
	const char *at = stat_field(proc, tid, STAT_START, text);
	const uint64_t tick_ns = CLOCK_NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK);
	const uint64_t now_ns = clock_read_ns(CLOCK_BOOTTIME);
	const uint64_t start_ns = at ? strtoull(at, NULL, 10) * tick_ns : 0;
	return at && start_ns <= now_ns ? now_ns - start_ns : 0;
}

uint64_t proc_timer_slack_ns(pid_t tid)
{
	char path[PROC_PATH_BYTES], text[32];
	/* The file exists below /proc/TID of any thread, but not below task/TID. */
	snprintf(path, sizeof(path), "/proc/%d/timerslack_ns", tid);
	return proc_file_short(AT_FDCWD, path, text, sizeof(text)) > 0 ? strtoull(text, NULL, 10)
								       : UINT64_MAX;
}
