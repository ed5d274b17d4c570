/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/process/kin.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "attach/proc/proc_living.h"
#include "attach/proc/proc_status.h"
#include "attach/process/proc_open.h"

#define GENERATIONS_MAX 64u
#define LOOKS		2u /* failed comparisons, before kill(2) decides whether the process is gone */
#define COUNTS_TRIES	200u
#define LIST_BYTES	4096u

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

typedef struct ht_err *kin_test(const struct proc *proc, pid_t other, bool *ret);

/* Lists all processes except `proc` for which `is_kin` is true. */
static struct ht_err *collect(const struct proc *proc, kin_test *is_kin, struct proc_tids *ret)
{
	struct proc_tids list = {0};
	struct ht_err *err = NULL;
	DIR *dir = opendir("/proc");

	if (!dir)
		return ht_err_sys(errno, "cannot list /proc");
	while (!err) {
		errno = 0;
		const struct dirent *entry = readdir(dir);
		if (!entry && errno)
			err = ht_err_sys(errno, "cannot list /proc");
		if (!entry)
			break;
		pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
		bool is = false;
		if (pid > 0 && pid != proc->pid)
			err = is_kin(proc, pid, &is);
		if (!err && is)
			err = add(&list, pid);
	}
	closedir(dir);
	if (err)
		proc_tids_deinit(&list);
	else
		*ret = list;
	return err;
}

/* --- the same memory -----------------------------------------------------------------------------
 */

static int compare(pid_t a, pid_t b)
{
	int result = (int)syscall(SYS_kcmp, a, b, KCMP_VM, 0, 0);
	return result < 0 ? -errno : result;
}

static struct ht_err *unknown_sharing(pid_t other)
{
	return ht_err_new(
		HT_ERR_INCOMPLETE, "cannot find out whether process %d shares its memory", other);
}

/* Counters of an address space; "" if there is none. */
static struct ht_err *read_counts(const struct proc *proc, char **ret)
{
	HT_TRY(proc_text(proc, "status", ret));
	char *from = strstr(*ret, "\nVmPeak:"), *to = strstr(*ret, "\nVmSwap:");
	size_t length = from && to > from ? (size_t)(to - from) : 0;
	memmove(*ret, from ? from : *ret, length);
	(*ret)[length] = '\0';
	return NULL;
}

/* The counters of one memory are equal through each of its processes; those of a copy differ, since
 * fork(2) copies no file pages. They must not change in between. */
static struct ht_err *compare_counts(const struct proc *proc, const struct proc *other, bool *ret)
{
	bool is_steady = false;
	struct ht_err *err = NULL;
	for (unsigned tries = 0; !err && !is_steady && tries < COUNTS_TRIES; tries++) {
		char *text[3] = {0};
		const struct proc *of[] = {proc, other, proc};
		for (size_t i = 0; !err && i < HT_ARRAY_SIZE(of); i++)
			err = read_counts(of[i], &text[i]);
		is_steady = !err && strcmp(text[0], text[2]) == 0;
		*ret = is_steady && strcmp(text[0], text[1]) == 0;
		for (size_t i = 0; i < HT_ARRAY_SIZE(of); i++)
			free(text[i]);
	}
	return err || is_steady ? err : unknown_sharing(other->pid);
}

/* Arguments, environment and auxiliary vector stay with the memory and with each copy of it. */
static struct ht_err *compare_looks(
	const struct proc *proc, const struct proc_auxv *start, const struct proc *other, bool *ret)
{
	struct proc_auxv theirs;
	HT_TRY(proc_auxv_read(other, &theirs));
	if (memcmp(start, &theirs, sizeof(theirs)) == 0)
		HT_TRY(compare_counts(proc, other, ret));
	return NULL;
}

/* Does the error mean that the process has ended, or is out of our reach? The right to look belongs
 * to the memory (PR_SET_DUMPABLE): if we have it for one process, we have it for all others in the
 * same memory, except those that became another user, which takes the right from the memory. */
static bool is_out_of_reach(const struct ht_err *err)
{
	return err->code == HT_ERR_TARGET_GONE || err->code == HT_ERR_REFUSED ||
	       err->sys == EACCES || err->sys == EPERM;
}

/* For a kernel without kcmp(2), or under a filter that forbids it. */
static struct ht_err *shares_by_looks(const struct proc *proc, pid_t pid, bool *ret)
{
	struct proc other;
	struct proc_auxv start;
	struct ht_err *err = proc_auxv_read(proc, &start);

	if (err && err->code != HT_ERR_TARGET_GONE)
		return err;
	HT_THEN(err, proc_open(pid, &other));
	if (!err) {
		err = compare_looks(proc, &start, &other, ret);
		proc_close(&other);
	}
	if (!err || !is_out_of_reach(err))
		return err;
	ht_err_free(err);
	*ret = false;
	return NULL;
}

struct ht_err *kin_shares(const struct proc *proc, pid_t other, bool *ret)
{
	*ret = false;
	for (unsigned look = 0; look < LOOKS; look++) {
		/* A main thread that has ended and a kernel thread have no memory: kcmp would call
		 * them all equal. */
		pid_t tid;
		struct ht_err *err = proc_living_tid(proc, &tid);
		if (err || !tid)
			return err;
		int result = compare(tid, other);
		*ret = result == 0;
		if (result >= 0)
			return NULL;
		if (compare(tid, tid) != 0)
			return shares_by_looks(proc, other, ret);
		if (result == -EPERM) /* see is_out_of_reach */
			return NULL;
	}
	return syscall(SYS_kill, other, 0) < 0 && errno == ESRCH ? NULL : unknown_sharing(other);
}

struct ht_err *kin_sharing(const struct proc *proc, struct proc_tids *ret)
{
	return collect(proc, kin_shares, ret);
}

/* --- copies of it --------------------------------------------------------------------------------
 */

enum runs { RUNS_OTHER, RUNS_SAME, RUNS_HIDDEN, RUNS_UNKNOWN };

/* Makes one system call for most processes, since most are not kin. If the main thread of `other`
 * has ended, its program is unknown: with other threads, each of which is a link of the task
 * directory, it counts as the same program. */
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
		return RUNS_HIDDEN;
	if (errno != ENOENT && errno != ESRCH)
		return RUNS_UNKNOWN;
	snprintf(path, sizeof(path), "/proc/%d/task", other);
	return errno == ENOENT && stat(path, &task) == 0 && task.st_nlink > 3 ? RUNS_SAME
									      : RUNS_OTHER;
}

/* Returns 0 if it is unknown. */
static pid_t parent_of(pid_t pid, struct proc_status *ret)
{
	struct proc proc;
	if (ht_err_drop(proc_open(pid, &proc)))
		return 0;
	bool is_known = !ht_err_drop(proc_status(&proc, 0, ret));
	proc_close(&proc);
	return is_known ? ret->ppid : 0;
}

/* Does `other` descend from `proc`, and run with exactly this user's rights? A process that got
 * other rights has become another program. Descendants of heaptap do not count, even if the target
 * started heaptap. */
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

static struct ht_err *is_forked_since(
	const struct proc *proc, pid_t other, uint64_t start_ticks, bool *ret)
{
	struct proc candidate;
	enum runs runs = what_runs(proc, other);

	*ret = false;
	if (runs == RUNS_OTHER)
		return NULL;
	struct ht_err *err = proc_open(other, &candidate);
	bool is = !err && candidate.start_ticks >= start_ticks;

	/* The caller names a process that exists but cannot be opened. */
	if (err)
		is = err->code != HT_ERR_REFUSED && err->code != HT_ERR_TARGET_GONE;
	else if (runs == RUNS_SAME)
		is &= candidate.exe_ino == proc->exe_ino && candidate.exe_dev == proc->exe_dev;
	else if (runs == RUNS_HIDDEN)
		is &= is_closed_child(proc, other);
	ht_err_free(err);
	proc_close(&candidate);
	*ret = is;
	return NULL;
}

static struct ht_err *is_forked(const struct proc *proc, pid_t other, bool *ret)
{
	return is_forked_since(proc, other, proc->start_ticks, ret);
}

static struct ht_err *is_forked_or_older(const struct proc *proc, pid_t other, bool *ret)
{
	return is_forked_since(proc, other, 0, ret);
}

/* Has `proc` left a memory in which another process runs on? Then `proc` may be the younger of the
 * two: a vfork child. */
static bool has_left_memory(const struct proc *proc)
{
	uint8_t byte;
	return proc->mem_fd >= 0 && proc_changed(proc) != PROC_SAME &&
	       pread(proc->mem_fd, &byte, sizeof(byte), 0) != 0;
}

struct ht_err *kin_forked(const struct proc *proc, struct proc_tids *ret)
{
	return collect(proc, has_left_memory(proc) ? is_forked_or_older : is_forked, ret);
}

/* --- children --- */

/* Children of one thread: numbers, each followed by a blank. */
static size_t take_list(int task_fd, const char *tid, pid_t *ret, size_t max)
{
	char path[64], text[LIST_BYTES];
	size_t count = 0, kept = 0;
	ssize_t got;

	snprintf(path, sizeof(path), "%.20s/children", tid);
	int fd = openat(task_fd, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	while (count < max && (got = read(fd, text + kept, sizeof(text) - 1 - kept)) > 0) {
		text[kept + (size_t)got] = '\0';
		char *at = text;
		for (char *end; count < max; at = end + 1) {
			long pid = strtol(at, &end, 10);
			if (*end != ' ')
				break;
			ret[count++] = (pid_t)pid;
		}
		/* A number that was cut is complete with the next piece. */
		kept = strlen(at);
		memmove(text, at, kept);
	}
	close(fd);
	return count;
}

size_t kin_children(const struct proc *proc, pid_t *ret, size_t max)
{
	size_t count = 0;
	int task_fd = openat(proc->dir_fd, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = task_fd < 0 ? NULL : fdopendir(task_fd);

	if (!dir && task_fd >= 0)
		close(task_fd);
	for (const struct dirent *entry; dir && (entry = readdir(dir));)
		if (entry->d_name[0] != '.')
			count += take_list(task_fd, entry->d_name, ret + count, max - count);
	if (dir)
		closedir(dir);
	return count;
}
