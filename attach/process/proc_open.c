/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/process/proc_open.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "attach/memory/memory.h"
#include "attach/proc/fd.h"
#include "attach/proc/permission.h"
#include "attach/proc/proc_file.h"
#include "attach/proc/proc_living.h"
#include "attach/proc/proc_status_text.h"
#include "attach/proc/proc_tids.h"
#include "attach/proc/procfs.h"

#define PF_KTHREAD   0x00200000u
#define RANDOM_BYTES 16u
#define LOOKS	     2u /* looks that must find a difference */

/* Identifies the program's file without asking the file's server: a stalled FUSE or NFS mount must
 * not block heaptap. False: errno is EACCES or EPERM if the right is missing; otherwise the process
 * has no memory any more. */
static bool exe_identity(const struct proc *proc, uint64_t *ret_dev, uint64_t *ret_ino)
{
	char path[PROC_PATH_BYTES];
	struct statx stx;
	for (;;) {
		bool is_gone = ht_err_drop(proc_file_path(proc, "exe", path));
		errno = ENOENT;
		if (is_gone)
			return false;
		if (statx(proc->dir_fd, path, AT_STATX_DONT_SYNC, STATX_INO, &stx) == 0)
			break;
		if (!proc_file_moved(proc, "exe", path))
			return false;
	}
	*ret_dev = makedev(stx.stx_dev_major, stx.stx_dev_minor);
	*ret_ino = stx.stx_ino;
	return true;
}

static struct ht_err *refuse_missing(pid_t pid)
{
	if (access("/proc/self/stat", F_OK) != 0)
		return ht_err_new(HT_ERR_PERMISSION, "/proc is not mounted here: mount it "
						     "(mount -t proc proc /proc)");
	char path[32];
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (access(path, F_OK) == 0)
		return ht_err_new(
			HT_ERR_REFUSED, "process %d has ended, and another has its number", pid);
	if (syscall(SYS_kill, pid, 0) == 0 || errno == EPERM)
		return ht_err_new(HT_ERR_PERMISSION,
			"process %d is hidden from this user (/proc is mounted with hidepid): "
			"run heaptap as root",
			pid);
	return ht_err_new(HT_ERR_REFUSED, "there is no process with PID %d", pid);
}

/* For messages: control characters of hostile names must not reach the terminal. */
static void comm_printable(char *comm)
{
	for (; *comm; comm++)
		if ((unsigned char)*comm < 0x20 || *comm == 0x7f)
			*comm = '?';
}

static struct ht_err *refuse_zombie(const struct proc *proc, const struct proc_status *status)
{
	return ht_err_new(HT_ERR_REFUSED,
		"process %d (%s) is a zombie: it has ended, and its parent %d has not collected it",
		proc->pid, status->comm, status->ppid);
}

static struct ht_err *open_checked(struct proc *proc)
{
	pid_t pid = proc->pid, tgid;
	struct proc_status status;
	struct proc_stat stat;
	struct ht_err *err = proc_status_leader(proc, &status, &tgid);
	if (err && (err->sys == ENOENT || err->sys == EPERM || err->sys == EACCES)) {
		ht_err_free(err);
		return refuse_missing(pid);
	}
	if (err)
		return err;
	comm_printable(status.comm);
	if (tgid != pid)
		return ht_err_new(HT_ERR_REFUSED,
			"%d is a thread (%s) of process %d; attach to the process: -p %d", pid,
			status.comm, tgid, tgid);
	proc->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (proc->pidfd < 0)
		return errno == ESRCH ? refuse_missing(pid)
				      : ht_err_sys(errno, "cannot open process %d", pid);
	/* /proc/PID is still readable, so the number belonged to this process at pidfd_open,
	 * too. */
	bool there;
	err = proc_stat_read(proc, "stat", &stat, &there);
	if (err || !there)
		return err ? err : refuse_missing(pid);
	if (stat.flags & PF_KTHREAD)
		return ht_err_new(HT_ERR_REFUSED, "%d (%s) is a kernel thread, not a program", pid,
			status.comm);
	pid_t living;
	err = proc_living_tid(proc, &living);
	if (err || !living)
		return err ? err : refuse_zombie(proc, &status);
	proc->start_ticks = stat.start_ticks;
	exe_identity(proc, &proc->exe_dev, &proc->exe_ino);
	return NULL;
}

struct ht_err *proc_open(pid_t pid, struct proc *ret)
{
	*ret = (struct proc){.pid = pid, .pidfd = -1, .dir_fd = -1, .mem_fd = -1};
	if (pid <= 0)
		return ht_err_new(HT_ERR_REFUSED, "%d is not a PID: give a positive number", pid);
	HT_TRY(procfs_check());
	char path[32];
	snprintf(path, sizeof(path), "/proc/%d", pid);
	ret->dir_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (ret->dir_fd < 0)
		return errno == ENOENT || errno == ESRCH
			       ? refuse_missing(pid)
			       : ht_err_sys(errno, "cannot open %s", path);
	struct ht_err *err = open_checked(ret);
	if (err)
		proc_close(ret);
	return err;
}

struct ht_err *proc_open_mem(struct proc *proc)
{
	char path[PROC_PATH_BYTES];
	struct proc_auxv auxv;
	if (proc->mem_fd < 0)
		proc->random = ht_err_drop(proc_auxv_read(proc, &auxv)) ? 0 : auxv.random;
	while (proc->mem_fd < 0) {
		HT_TRY(proc_file_path(proc, "mem", path));
		int fd = openat(proc->dir_fd, path, O_RDWR | O_CLOEXEC);
		int sys = errno;
		if (!proc_file_moved(proc, "mem", path)) {
			proc->mem_fd = fd;
			if (fd < 0)
				return sys == EACCES || sys == EPERM
					       ? permission_explain(proc)
					       : proc_file_failed(proc, path, sys);
		} else if (fd >= 0) {
			close(fd);
		}
	}
	return NULL;
}

void proc_close(struct proc *proc)
{
	int *fds[] = {&proc->pidfd, &proc->dir_fd, &proc->mem_fd};
	for (size_t i = 0; i < HT_ARRAY_SIZE(fds); i++) {
		if (*fds[i] > 0)
			close(*fds[i]);
		*fds[i] = -1;
	}
}

struct ht_err *proc_status_of(pid_t pid, struct proc_status *ret)
{
	HT_CLEANUP(proc_close) struct proc proc = {0};
	HT_TRY(proc_open(pid, &proc));
	return proc_status(&proc, 0, ret);
}

/* False if the bytes are unknown: the page is not there, or nothing uses the memory any more. */
static bool read_random(const struct proc *proc, uint8_t ret[RANDOM_BYTES], size_t *ret_read)
{
	return !ht_err_drop(memory_read_some(proc, proc->random, ret, RANDOM_BYTES, ret_read));
}

/* The program may be writing these bytes: they must stay the same meanwhile. */
static bool random_differs(const struct proc *proc, const struct proc *now)
{
	uint8_t bytes[3][RANDOM_BYTES];
	size_t got[3];
	return read_random(proc, bytes[0], &got[0]) && read_random(now, bytes[1], &got[1]) &&
	       read_random(proc, bytes[2], &got[2]) && got[0] == RANDOM_BYTES && got[2] == got[0] &&
	       memcmp(bytes[0], bytes[2], RANDOM_BYTES) == 0 &&
	       (got[1] != got[0] || memcmp(bytes[0], bytes[1], RANDOM_BYTES) != 0);
}

/* If this process runs the same program anew, another may still run in the memory that was opened
 * (CLONE_VM). */
static bool has_other_memory(const struct proc *proc)
{
	struct proc now = *proc;
	now.mem_fd = proc->random && proc->mem_fd >= 0
			     ? openat(proc->dir_fd, "mem", O_RDONLY | O_CLOEXEC)
			     : -1;
	bool other = now.mem_fd >= 0;
	for (unsigned look = 0; other && look < LOOKS; look++)
		other = random_differs(proc, &now);
	fd_close(&now.mem_fd);
	return other;
}

enum proc_change proc_changed(const struct proc *proc)
{
	if (proc_has_exited(proc))
		return PROC_EXITED;
	uint64_t dev, ino;
	uint8_t byte;
	/* An address space that nothing uses reads as an empty file at every address. A process
	 * gives it up some time before it exits. */
	if (proc->mem_fd >= 0 && pread(proc->mem_fd, &byte, sizeof(byte), 0) == 0)
		return exe_identity(proc, &dev, &ino) || errno == EACCES || errno == EPERM
			       ? PROC_EXECED
			       : PROC_EXITED;
	if (proc->exe_ino && exe_identity(proc, &dev, &ino) &&
		(dev != proc->exe_dev || ino != proc->exe_ino))
		return PROC_EXECED;
	return has_other_memory(proc) ? PROC_EXECED : PROC_SAME;
}

struct ht_err *proc_check_same(const struct proc *proc)
{
	switch (proc_changed(proc)) {
	case PROC_EXITED:
		return proc_gone(proc);
	case PROC_EXECED:
		return ht_err_new(
			HT_ERR_TARGET_GONE, "process %d runs another program now", proc->pid);
	case PROC_SAME:
		break;
	}
	return NULL;
}
