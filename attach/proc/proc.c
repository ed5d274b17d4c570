/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/proc/proc.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "attach/proc/memory.h"
#include "attach/proc/permission.h"
#include "attach/proc/proc_file.h"
#include "attach/proc/procfs.h"
#include "format/bytes.h"

#define PF_KTHREAD	0x00200000u
#define PF_IO_WORKER	0x00000010u
#define PF_USER_WORKER	0x00004000u
#define TEXT_MAX_BYTES	(1u << 20)
#define LINK_MAX_BYTES	(1u << 16)
#define READ_STEP_BYTES (1u << 16)
#define READ_FEW_BYTES	(1u << 13)
#define STAT_MAX_BYTES	2048u
#define RANDOM_BYTES	16u
#define LOOKS		2u /* that find nothing, before nothing is there */

/* The fields of /proc/PID/stat that identify a task. */
struct stat_fields {
	char name[8]; /* as much of it */
	char state;
	unsigned long flags;
	uint64_t start_ticks;
};

static struct ht_err *gone(const struct proc *proc)
{
	return ht_err_new(HT_ERR_TARGET_GONE, "process %d has ended", proc->pid);
}

static bool exited(const struct proc *proc)
{
	struct pollfd poll_fd = {.fd = proc->pidfd, .events = POLLIN};
	return poll(&poll_fd, 1, 0) == 1 && poll_fd.revents != 0;
}

struct ht_err *proc_file_failed(const struct proc *proc, const char *name, int sys)
{
	if (sys == ESRCH || exited(proc))
		return gone(proc);
	return ht_err_sys(sys, "cannot read /proc/%d/%s", proc->pid, name);
}

/* The comm field is the one text in stat, and it may hold parentheses, spaces and newlines; what
 * follows its last ')' is numbers. */
static bool stat_parse(const char *text, struct stat_fields *ret)
{
	const char *name = strchr(text, '('), *at = strrchr(text, ')');
	snprintf(ret->name, sizeof(ret->name), "%s", name ? name + 1 : "");
	return at && sscanf(at + 1,
			     " %c %*d %*d %*d %*d %*d %lu %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d"
			     " %*d %*d %" SCNu64,
			     &ret->state, &ret->flags, &ret->start_ticks) == 3;
}

static bool is_nothing(int sys)
{
	return sys == ENOENT || sys == ESRCH;
}

/* 0, or why not. */
static int stat_read_once(int dir_fd, const char *path, struct stat_fields *ret)
{
	char text[STAT_MAX_BYTES];
	int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno;
	ssize_t length = read(fd, text, sizeof(text) - 1);
	int sys = errno;
	close(fd);
	if (length < 0)
		return sys;
	text[length] = '\0';
	return stat_parse(text, ret) ? 0 : EBADMSG;
}

/* False in `ret_there` when there is no such task. */
static struct ht_err *stat_read(
	const struct proc *proc, const char *path, struct stat_fields *ret, bool *ret_there)
{
	int sys = 0;
	for (unsigned look = 0; look < LOOKS; look++) {
		sys = stat_read_once(proc->dir_fd, path, ret);
		if (!is_nothing(sys))
			break;
	}
	*ret_there = sys == 0;
	return !sys || is_nothing(sys)
		       ? NULL
		       : ht_err_sys(sys, "cannot read /proc/%d/%s", proc->pid, path);
}

struct ht_err *proc_file_exists(const struct proc *proc, int dir_fd, const char *path, bool *ret)
{
	*ret = true;
	for (unsigned look = 0; look < LOOKS; look++) {
		if (faccessat(dir_fd, path, F_OK, 0) == 0)
			return NULL;
		if (!is_nothing(errno))
			return ht_err_sys(errno, "cannot look at /proc/%d/%s", proc->pid, path);
	}
	*ret = false;
	return NULL;
}

struct ht_err *proc_has_thread(const struct proc *proc, pid_t tid, bool *ret)
{
	char path[PROC_PATH_BYTES];
	snprintf(path, sizeof(path), "task/%d/status", tid);
	return proc_file_exists(proc, proc->dir_fd, path, ret);
}

static struct ht_err *task_lives(const struct proc *proc, const char *path, bool *ret)
{
	struct stat_fields stat;
	struct ht_err *err = stat_read(proc, path, &stat, ret);
	*ret = !err && *ret && !strchr("ZXx", stat.state);
	return err;
}

static bool is_called(const struct stat_fields *stat, const char *beginning)
{
	return strncmp(stat->name, beginning, strlen(beginning)) == 0;
}

/* By flags, which no program can set, and which meant something else in older kernels; and by the
 * names that the kernel gives: those of io_uring, and of a virtual machine (vhost, KVM). */
static bool is_worker(const struct stat_fields *stat)
{
	return (stat->flags & PF_IO_WORKER && is_called(stat, "iou-")) ||
	       (stat->flags & PF_USER_WORKER &&
		       (is_called(stat, "vhost-") || is_called(stat, "kvm-nx-")));
}

struct ht_err *proc_is_worker(const struct proc *proc, pid_t tid, bool *ret)
{
	char path[PROC_PATH_BYTES];
	struct stat_fields stat;
	snprintf(path, sizeof(path), "task/%d/stat", tid);
	struct ht_err *err = stat_read(proc, path, &stat, ret);
	*ret = !err && *ret && is_worker(&stat);
	return err;
}

/* When the main thread has ended and others go on, /proc/PID/maps, mem, exe, fd and the like are
 * empty; those under task/TID of a living thread are not. */
struct ht_err *proc_living_tid(const struct proc *proc, pid_t *ret)
{
	bool lives;
	struct proc_tids tids;
	struct ht_err *err = task_lives(proc, "stat", &lives);
	*ret = !err && lives ? proc->pid : 0;
	if (err || lives || exited(proc))
		return err;
	err = proc_tids_read(proc, &tids);
	if (err)
		return err;
	for (size_t i = 0; !err && !*ret && i < tids.count; i++) {
		char path[64];
		snprintf(path, sizeof(path), "task/%d/stat", tids.tid[i]);
		err = task_lives(proc, path, &lives);
		*ret = !err && lives ? tids.tid[i] : 0;
	}
	proc_tids_deinit(&tids);
	return err;
}

struct ht_err *proc_file_path(const struct proc *proc, const char *name, char ret[PROC_PATH_BYTES])
{
	pid_t tid;
	struct ht_err *err = proc_living_tid(proc, &tid);
	if (err)
		return err;
	if (!tid)
		return gone(proc);
	int length = tid == proc->pid ? snprintf(ret, PROC_PATH_BYTES, "%s", name)
				      : snprintf(ret, PROC_PATH_BYTES, "task/%d/%s", tid, name);
	if (length < 0 || length >= (int)PROC_PATH_BYTES)
		return ht_err_new(HT_ERR_INTERNAL, "name in /proc too long: %s", name);
	return NULL;
}

bool proc_file_moved(const struct proc *proc, const char *name, const char *path)
{
	char now[PROC_PATH_BYTES];
	struct ht_err *err = proc_file_path(proc, name, now);
	bool moved = !err && strcmp(path, now) != 0;
	ht_err_free(err);
	return moved;
}

struct ht_err *proc_file_read(
	const struct proc *proc, const char *path, size_t max, char **ret, size_t *ret_length)
{
	int fd = openat(proc->dir_fd, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return proc_file_failed(proc, path, errno);
	struct ht_err *err = NULL;
	char *text = NULL;
	size_t length = 0, capacity = 0;
	/* What a mapping of its own would be made for is no place for a few lines. */
	size_t step = max > READ_STEP_BYTES ? READ_STEP_BYTES : READ_FEW_BYTES;
	for (;;) {
		if (capacity - length < step) {
			capacity = capacity ? capacity * 2 : 2 * step;
			char *grown = realloc(text, capacity);
			if (!grown) {
				err = ht_err_new(
					HT_ERR_NOMEM, "no memory for /proc/%d/%s", proc->pid, path);
				break;
			}
			text = grown;
		}
		ssize_t got = read(fd, text + length, capacity - length - 1);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			err = proc_file_failed(proc, path, errno);
		if (got <= 0)
			break;
		length += (size_t)got;
		if (length > max) {
			err = ht_err_new(HT_ERR_FORMAT, "/proc/%d/%s is longer than %zu bytes",
				proc->pid, path, max);
			break;
		}
	}
	close(fd);
	if (err) {
		free(text);
		return err;
	}
	text[length] = '\0';
	*ret = text;
	if (ret_length)
		*ret_length = length;
	return NULL;
}

struct ht_err *proc_file_read_living(
	const struct proc *proc, const char *name, size_t max, char **ret, size_t *ret_length)
{
	char path[PROC_PATH_BYTES];
	for (;;) {
		*ret = NULL;
		struct ht_err *err = proc_file_path(proc, name, path);
		if (err)
			return err;
		err = proc_file_read(proc, path, max, ret, ret_length);
		if (!proc_file_moved(proc, name, path))
			return err;
		free(*ret);
		ht_err_free(err);
	}
}

struct ht_err *proc_text(const struct proc *proc, const char *name, char **ret)
{
	return proc_file_read_living(proc, name, TEXT_MAX_BYTES, ret, NULL);
}

struct ht_err *proc_auxv_read(const struct proc *proc, struct proc_auxv *ret)
{
	*ret = (struct proc_auxv){0};
	char *data;
	size_t length;
	struct ht_err *err = proc_file_read_living(proc, "auxv", TEXT_MAX_BYTES, &data, &length);
	if (err)
		return err;
	struct bytes in = bytes_of(data, length);
	for (uint64_t type, value; bytes_u64(&in, &type) && bytes_u64(&in, &value);) {
		if (type == AT_PHDR)
			ret->phdr = value;
		else if (type == AT_ENTRY)
			ret->entry = value;
		else if (type == AT_BASE)
			ret->base = value;
		else if (type == AT_SYSINFO_EHDR)
			ret->vdso = value;
		else if (type == AT_RANDOM)
			ret->random = value;
	}
	free(data);
	return NULL;
}

/* One attempt; *ret stays NULL without error when the link is longer than `capacity`. */
static struct ht_err *link_read(
	const struct proc *proc, const char *path, size_t capacity, char **ret)
{
	char *target = malloc(capacity);
	if (!target)
		return ht_err_new(HT_ERR_NOMEM, "no memory for a link of /proc");
	ssize_t length = readlinkat(proc->dir_fd, path, target, capacity);
	int sys = errno;
	if (length >= 0 && (size_t)length < capacity) {
		target[length] = '\0';
		*ret = target;
		return NULL;
	}
	free(target);
	return length < 0 ? proc_file_failed(proc, path, sys) : NULL;
}

struct ht_err *proc_link(const struct proc *proc, const char *name, char **ret)
{
	char path[PROC_PATH_BYTES];
	size_t capacity = 256;
	for (*ret = NULL; capacity <= LINK_MAX_BYTES; capacity *= 2) {
		struct ht_err *err = proc_file_path(proc, name, path);
		if (err)
			return err;
		err = link_read(proc, path, capacity, ret);
		if (err && proc_file_moved(proc, name, path)) {
			ht_err_free(err);
			continue;
		}
		if (err || *ret)
			return err;
	}
	return ht_err_new(HT_ERR_FORMAT, "the link /proc/%d/%s is too long", proc->pid, path);
}

/* Without asking the file's server: a stalled FUSE or NFS mount must not hang us. errno says why
 * not; unless that is forbidden, the process has no memory any more. */
static bool exe_identity(const struct proc *proc, uint64_t *ret_dev, uint64_t *ret_ino)
{
	char path[PROC_PATH_BYTES];
	struct statx stx;
	for (;;) {
		struct ht_err *err = proc_file_path(proc, "exe", path);
		ht_err_free(err);
		errno = ENOENT;
		if (err)
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

/* A comm for messages: control characters of hostile names would reach the terminal. */
static void comm_printable(char *comm)
{
	for (; *comm; comm++)
		if ((unsigned char)*comm < 0x20 || *comm == 0x7f)
			*comm = '?';
}

static struct ht_err *refuse_thread(pid_t tid, pid_t tgid, const struct proc_status *status)
{
	return ht_err_new(HT_ERR_REFUSED,
		"%d is a thread (%s) of process %d; attach to the process: -p %d", tid,
		status->comm, tgid, tgid);
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
	struct stat_fields stat;
	struct ht_err *err = proc_status_leader(proc, &status, &tgid);
	if (err && (err->sys == ENOENT || err->sys == EPERM || err->sys == EACCES)) {
		ht_err_free(err);
		return refuse_missing(pid);
	}
	if (err)
		return err;
	comm_printable(status.comm);
	if (tgid != pid)
		return refuse_thread(pid, tgid, &status);
	proc->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (proc->pidfd < 0)
		return errno == ESRCH ? refuse_missing(pid)
				      : ht_err_sys(errno, "cannot open process %d", pid);
	/* Still readable now: so the number has been this process's at pidfd_open, too. */
	bool there;
	err = stat_read(proc, "stat", &stat, &there);
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
	struct ht_err *err = procfs_check();
	if (err)
		return err;
	char path[32];
	snprintf(path, sizeof(path), "/proc/%d", pid);
	ret->dir_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (ret->dir_fd < 0)
		return errno == ENOENT || errno == ESRCH
			       ? refuse_missing(pid)
			       : ht_err_sys(errno, "cannot open %s", path);
	err = open_checked(ret);
	if (err)
		proc_close(ret);
	return err;
}

static struct ht_err *mem_open_failed(const struct proc *proc, const char *path, int sys)
{
	return sys == EACCES || sys == EPERM ? permission_explain(proc)
					     : proc_file_failed(proc, path, sys);
}

static void find_random(struct proc *proc)
{
	struct proc_auxv auxv;
	struct ht_err *err = proc_auxv_read(proc, &auxv);
	proc->random = err ? 0 : auxv.random;
	ht_err_free(err);
}

struct ht_err *proc_open_mem(struct proc *proc)
{
	char path[PROC_PATH_BYTES];
	if (proc->mem_fd < 0)
		find_random(proc);
	while (proc->mem_fd < 0) {
		struct ht_err *err = proc_file_path(proc, "mem", path);
		if (err)
			return err;
		int fd = openat(proc->dir_fd, path, O_RDWR | O_CLOEXEC);
		int sys = errno;
		if (!proc_file_moved(proc, "mem", path)) {
			proc->mem_fd = fd;
			if (fd < 0)
				return mem_open_failed(proc, path, sys);
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

/* False when it cannot be told: the page is not there, or the memory has no users any more. */
static bool read_random(const struct proc *proc, uint8_t ret[RANDOM_BYTES], size_t *ret_read)
{
	struct ht_err *err = memory_read_some(proc, proc->random, ret, RANDOM_BYTES, ret_read);
	bool read = !err;
	ht_err_free(err);
	return read;
}

/* The program itself may be writing them: they must stay the same meanwhile. */
static bool random_differs(const struct proc *proc, const struct proc *now)
{
	uint8_t bytes[3][RANDOM_BYTES];
	size_t got[3];
	return read_random(proc, bytes[0], &got[0]) && read_random(now, bytes[1], &got[1]) &&
	       read_random(proc, bytes[2], &got[2]) && got[0] == RANDOM_BYTES && got[2] == got[0] &&
	       memcmp(bytes[0], bytes[2], RANDOM_BYTES) == 0 &&
	       (got[1] != got[0] || memcmp(bytes[0], bytes[1], RANDOM_BYTES) != 0);
}

/* Another process may run on in the memory that was opened (CLONE_VM), when this one runs the same
 * program anew. */
static bool has_other_memory(const struct proc *proc)
{
	struct proc now = *proc;
	now.mem_fd = proc->random && proc->mem_fd >= 0
			     ? openat(proc->dir_fd, "mem", O_RDONLY | O_CLOEXEC)
			     : -1;
	bool other = now.mem_fd >= 0;
	for (unsigned look = 0; other && look < LOOKS; look++)
		other = random_differs(proc, &now);
	if (now.mem_fd >= 0)
		close(now.mem_fd);
	return other;
}

enum proc_change proc_changed(const struct proc *proc)
{
	if (exited(proc))
		return PROC_EXITED;
	uint64_t dev, ino;
	uint8_t byte;
	/* An address space without users reads as an empty file, at any address. A process gives it
	 * up some time before it has exited. */
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
		return gone(proc);
	case PROC_EXECED:
		return ht_err_new(
			HT_ERR_TARGET_GONE, "process %d runs another program now", proc->pid);
	case PROC_SAME:
		break;
	}
	return NULL;
}
