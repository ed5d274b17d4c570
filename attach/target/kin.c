/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/target/kin.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define GENERATIONS_MAX 64u

static struct ht_err *add(struct proc_tids *list, pid_t pid)
{
	if ((list->count & (list->count - 1)) == 0) {
		size_t capacity = list->count ? 2 * list->count : 1;
		pid_t *grown = realloc(list->tid, capacity * sizeof(*grown));
		if (!grown)
			return ht_err_new(HT_ERR_NOMEM, "no memory for %zu processes", capacity);
		list->tid = grown;
	}
	list->tid[list->count++] = pid;
	return NULL;
}

/* All processes but `proc` for which `is_kin` holds. */
static struct ht_err *collect(const struct proc *proc,
	bool (*is_kin)(const struct proc *proc, pid_t other), struct proc_tids *ret)
{
	struct proc_tids list = {0};
	struct ht_err *err = NULL;
	DIR *dir = opendir("/proc");

	if (!dir)
		return ht_err_sys(errno, "cannot list /proc");
	for (const struct dirent *entry; !err && (entry = readdir(dir));) {
		pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
		if (pid > 0 && pid != proc->pid && is_kin(proc, pid))
			err = add(&list, pid);
	}
	closedir(dir);
	if (err)
		proc_tids_deinit(&list);
	else
		*ret = list;
	return err;
}

bool kin_shares(const struct proc *proc, pid_t other)
{
	/* Of a main thread that has ended, and of a kernel thread, there is no memory to compare:
	 * all those would be equal. */
	pid_t tid;
	struct ht_err *err = proc_living_tid(proc, &tid);
	ht_err_free(err);
	return !err && tid && syscall(SYS_kcmp, tid, other, KCMP_VM, 0, 0) == 0;
}

struct ht_err *kin_sharing(const struct proc *proc, struct proc_tids *ret)
{
	return collect(proc, kin_shares, ret);
}

enum runs { RUNS_OTHER, RUNS_SAME, RUNS_UNTOLD };

/* One call for each of the many that are not. The program of a main thread that has ended is not
 * told: then it matters whether there are others, of which each is a link of the directory. */
static enum runs what_runs(const struct proc *proc, pid_t other)
{
	char path[64];
	struct statx stx;
	struct stat task;

	snprintf(path, sizeof(path), "/proc/%d/exe", other);
	if (statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_INO, &stx) == 0)
		return stx.stx_ino == proc->exe_ino && makedev(stx.stx_dev_major,
							       stx.stx_dev_minor) == proc->exe_dev
			       ? RUNS_SAME
			       : RUNS_OTHER;
	if (errno == EACCES || errno == EPERM)
		return RUNS_UNTOLD;
	snprintf(path, sizeof(path), "/proc/%d/task", other);
	return errno == ENOENT && stat(path, &task) == 0 && task.st_nlink > 3 ? RUNS_SAME
									      : RUNS_OTHER;
}

/* 0: not told. */
static pid_t parent_of(pid_t pid, struct proc_status *ret)
{
	struct proc proc;
	struct ht_err *err = proc_open(pid, &proc);
	bool read = !err;

	if (read) {
		err = proc_status(&proc, 0, ret);
		proc_close(&proc);
	}
	pid_t parent = err ? 0 : ret->ppid;
	ht_err_free(err);
	return parent;
}

/* A process that shows itself to nobody, though it is this user's and nobody else's: what took
 * other rights with it has become another program. Nor is it ours, if the target started us. */
static bool is_closed_child(const struct proc *proc, pid_t other)
{
	struct proc_status status = {0}, ancestor;
	uid_t own = geteuid();
	pid_t parent = parent_of(other, &status);

	if (other == getpid() || status.ruid != own || status.euid != own || status.suid != own)
		return false;
	for (unsigned i = 0;
		i < GENERATIONS_MAX && parent > 1 && parent != proc->pid && parent != getpid(); i++)
		parent = parent_of(parent, &ancestor);
	return parent == proc->pid;
}

static bool is_heir(const struct proc *proc, pid_t other)
{
	struct proc heir;
	enum runs runs = what_runs(proc, other);

	if (runs == RUNS_OTHER)
		return false;
	struct ht_err *err = proc_open(other, &heir);
	bool is = !err && heir.start_ticks >= proc->start_ticks;

	/* What is there and cannot be opened is the caller's to name. */
	if (err)
		is = err->code != HT_ERR_REFUSED && err->code != HT_ERR_TARGET_GONE;
	else if (runs == RUNS_SAME)
		is &= heir.exe_ino == proc->exe_ino && heir.exe_dev == proc->exe_dev;
	else
		is &= is_closed_child(proc, other);
	ht_err_free(err);
	proc_close(&heir);
	return is;
}

struct ht_err *kin_heirs(const struct proc *proc, struct proc_tids *ret)
{
	return collect(proc, is_heir, ret);
}
