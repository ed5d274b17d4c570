/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/thread/proc_where.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/proc/proc_file.h"
#include "attach/process/proc_open.h"

#define SYSCALL_MAX_BYTES   512u
#define SCHEDSTAT_MAX_BYTES (1u << 16)

/* "running", "-1 SP PC" or "NR ARG*6 SP PC". For a thread that has ended SP and PC are 0. */
static bool syscall_parse(const char *text, struct proc_syscall *ret)
{
	*ret = (struct proc_syscall){.where = PROC_RUNNING, .nr = -1};
	if (!strncmp(text, "running", 7))
		return true;
	if (sscanf(text, "-1 0x%" SCNx64 " 0x%" SCNx64, &ret->sp, &ret->pc) == 2) {
		ret->where = ret->sp || ret->pc ? PROC_BLOCKED_ELSEWHERE : PROC_THREAD_GONE;
		return true;
	}
	ret->where = PROC_IN_SYSCALL;
	uint64_t *arg = ret->arg;
	return sscanf(text,
		       "%ld 0x%" SCNx64 " 0x%" SCNx64 " 0x%" SCNx64 " 0x%" SCNx64 " 0x%" SCNx64
		       " 0x%" SCNx64 " 0x%" SCNx64 " 0x%" SCNx64,
		       &ret->nr, &arg[0], &arg[1], &arg[2], &arg[3], &arg[4], &arg[5], &ret->sp,
		       &ret->pc) == 9;
}

/* NULL only if the thread that has the file `path` has ended. */
static struct ht_err *thread_failed(const struct proc *proc, int dir_fd, const char *path, int sys)
{
	bool there;
	HT_TRY(proc_file_exists(proc, dir_fd, path, &there));
	if (there)
		return ht_err_sys(sys, "cannot read where a thread of process %d is", proc->pid);
	return proc_changed(proc) == PROC_EXITED ? proc_file_failed(proc, path, ESRCH) : NULL;
}

struct ht_err *proc_syscall_read(const struct proc *proc, pid_t tid, struct proc_syscall *ret)
{
	char path[PROC_PATH_BYTES], text[SYSCALL_MAX_BYTES];
	*ret = (struct proc_syscall){.where = PROC_THREAD_GONE, .nr = -1};
	snprintf(path, sizeof(path), "task/%d", tid);
	int fd = openat(proc->dir_fd, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return thread_failed(proc, proc->dir_fd, path, errno);
	ssize_t length = proc_file_short(fd, "syscall", text, sizeof(text));
	int sys = length < 0 ? errno : EIO;
	struct ht_err *err = length > 0 ? NULL : thread_failed(proc, fd, "status", sys);
	close(fd);
	if (err || length <= 0)
		return err;
	if (!syscall_parse(text, ret))
		return ht_err_new(HT_ERR_FORMAT, "cannot parse /proc/%d/%s/syscall: '%.*s'",
			proc->pid, path, (int)strcspn(text, "\n"), text);
	return NULL;
}

struct ht_err *proc_turns_read(const struct proc *proc, pid_t tid, struct proc_turns *ret)
{
	char path[PROC_PATH_BYTES], *text;
	snprintf(path, sizeof(path), "task/%d/schedstat", tid);
	HT_TRY(proc_file_read(proc, path, SCHEDSTAT_MAX_BYTES, &text, NULL));
	*ret = (struct proc_turns){0};
	bool is_whole = sscanf(text, "%" SCNu64 " %*u %" SCNu64, &ret->run_ns, &ret->count) == 2;
	free(text);
	return is_whole ? NULL
			: ht_err_new(HT_ERR_FORMAT, "cannot parse /proc/%d/%s", proc->pid, path);
}

uint64_t proc_ran_ns(const struct proc *proc, pid_t tid)
{
	char path[PROC_PATH_BYTES], text[96];
	snprintf(path, sizeof(path), "task/%d/schedstat", tid);
	(void)proc_file_short(proc->dir_fd, path, text, sizeof(text));
	return strtoull(text, NULL, 10);
}

bool proc_has_run(const struct proc *proc, pid_t tid, uint64_t ran_ns)
{
	struct proc_syscall call;
	if (!ran_ns || proc_ran_ns(proc, tid) != ran_ns)
		return true;
	bool is_running =
		!ht_err_drop(proc_syscall_read(proc, tid, &call)) && call.where == PROC_RUNNING;
	return !is_running;
}
