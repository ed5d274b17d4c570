/* SPDX-License-Identifier: Apache-2.0
 *
 * Two locks, because neither is visible to every heaptap. A socket name is unique in one network
 * namespace. A lock on the process's own file in pidfs (Linux 6.9) is the same for everyone who
 * sees the process; before that the lock is on its directory in /proc, which is unique in one mount
 * of /proc.
 */
#include "attach/process/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "attach/proc/clock.h"
#include "attach/proc/fd.h"
#include "attach/proc/proc_tids.h"
#include "attach/process/gate.h"
#include "attach/process/kin.h"
#include "attach/process/proc_open.h"

#define PIDFS_MAGIC 0x50494446
#define TRIES                                                                                      \
	1000u /* a heaptap that only asks holds the lock for a moment, a dying one until it gets a \
		 turn */
#define SHARED_TRIES	50u
#define SHARED_PAUSE_NS (20 * CLOCK_NS_PER_MS) /* each try walks all of /proc */

/* Before pidfs, the pidfds of all processes were one file. */
static bool is_file_of(const struct proc *proc, int fd)
{
	struct statfs fs;
	struct stat its, stat;
	return fstatfs(fd, &fs) == 0 && fs.f_type == PIDFS_MAGIC && fstat(proc->pidfd, &its) == 0 &&
	       fstat(fd, &stat) == 0 && stat.st_ino == its.st_ino;
}

/* Opens a new file description, which carries no lock yet. Negative with errno on failure. */
static int open_file(const struct proc *proc)
{
	int fd = (int)syscall(SYS_pidfd_open, proc->pid, 0);
	if (fd >= 0 && is_file_of(proc, fd))
		return fd;
	fd_close(&fd);
	return openat(proc->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static bool name_is_held(const struct proc *proc)
{
	struct sockaddr_un addr;
	socklen_t bytes = gate_address(proc, "heaptap", &addr);
	FD_GUARD int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	return fd >= 0 && connect(fd, (struct sockaddr *)&addr, bytes) == 0;
}

static bool file_is_held(const struct proc *proc)
{
	FD_GUARD int fd = open_file(proc);
	return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

static bool any_is_held(const struct proc *proc)
{
	return name_is_held(proc) || file_is_held(proc);
}

static bool is_same(const struct proc *a, const struct proc *b)
{
	return a && b && a->pid == b->pid && a->start_ticks == b->start_ticks;
}

static struct ht_err *look_at(pid_t pid, const struct proc *ours, pid_t *ret)
{
	struct proc sharer;
	struct ht_err *err = proc_open(pid, &sharer);
	if (!err) {
		if (!is_same(&sharer, ours) && any_is_held(&sharer))
			*ret = pid;
		proc_close(&sharer);
		return NULL;
	}
	if (err->code != HT_ERR_REFUSED && err->code != HT_ERR_TARGET_GONE)
		return err;
	ht_err_free(err);
	return NULL;
}

/* The locked process among those that share the memory, except `ours`; 0: none. A process that
 * cannot be compared (kcmp) counts as not sharing. */
static struct ht_err *locked_sharer(const struct proc *proc, const struct proc *ours, pid_t *ret)
{
	struct proc_tids sharers;
	*ret = 0;
	struct ht_err *err = kin_sharing(proc, &sharers);
	if (err && err->code == HT_ERR_INCOMPLETE) {
		ht_err_free(err);
		return NULL;
	}
	if (err)
		return err;
	for (size_t i = 0; !err && !*ret && i < sharers.count; i++)
		err = look_at(sharers.tid[i], ours, ret);
	proc_tids_deinit(&sharers);
	return err;
}

/* If the question fails, another heaptap may be at work: answer yes. */
bool lock_is_held(const struct proc *proc)
{
	pid_t held;
	if (any_is_held(proc))
		return true;
	struct ht_err *err = locked_sharer(proc, NULL, &held);
	bool unknown = err && err->code != HT_ERR_TARGET_GONE;
	ht_err_free(err);
	return unknown || held;
}

struct ht_err *lock_refuse(const struct proc *proc)
{
	return ht_err_new(HT_ERR_REFUSED,
		"another heaptap works on process %d, or the guardian of one that has ended "
		"(process heaptap-guard: it needs a moment, or tries for at most ten minutes; kill "
		"-9 ends it)",
		proc->pid);
}

static struct ht_err *take_name(const struct proc *proc, unsigned tries, int *ret)
{
	struct sockaddr_un addr;
	socklen_t bytes = gate_address(proc, "heaptap", &addr);

	*ret = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (*ret < 0)
		return ht_err_sys(errno, "cannot make a socket");
	for (unsigned attempt = 0; attempt < tries; attempt++) {
		if (bind(*ret, (struct sockaddr *)&addr, bytes) == 0)
			return NULL;
		if (errno != EADDRINUSE)
			return ht_err_sys(errno, "cannot name a socket");
		clock_sleep_ns(CLOCK_NS_PER_MS);
	}
	return lock_refuse(proc);
}

static struct ht_err *take_file(const struct proc *proc, unsigned tries, int *ret)
{
	*ret = open_file(proc);
	if (*ret < 0)
		return errno == ESRCH || errno == ENOENT
			       ? ht_err_new(HT_ERR_TARGET_GONE, "process %d has ended", proc->pid)
			       : ht_err_sys(errno, "cannot open /proc/%d", proc->pid);
	for (unsigned attempt = 0; attempt < tries; attempt++) {
		if (flock(*ret, LOCK_EX | LOCK_NB) == 0)
			return NULL;
		if (errno != EWOULDBLOCK && errno != EINTR)
			return ht_err_sys(errno, "cannot lock process %d", proc->pid);
		clock_sleep_ns(CLOCK_NS_PER_MS);
	}
	return lock_refuse(proc);
}

static struct ht_err *take_own(const struct proc *proc, bool wait, struct lock *lock)
{
	unsigned tries = wait ? TRIES : 1;
	HT_TRY(take_name(proc, tries, &lock->name_fd));
	return take_file(proc, tries, &lock->file_fd);
}

/* Two heaptaps that begin at once see each other: the one whose process has the lower number keeps
 * its lock and waits, while the other releases its own. A wait for a dying heaptap ends in the same
 * way. */
struct ht_err *lock_take_beside(
	const struct proc *proc, const struct proc *ours, bool wait, struct lock *ret)
{
	struct lock lock = LOCK_NONE;
	pid_t held = 0;
	struct ht_err *err = NULL;

	for (unsigned tries = 0; !err && tries < (wait ? SHARED_TRIES : 1u); tries++) {
		if (held)
			clock_sleep_ns(SHARED_PAUSE_NS);
		if (lock.name_fd < 0)
			err = take_own(proc, wait, &lock);
		HT_THEN(err, locked_sharer(proc, ours, &held));
		if (!err && !held)
			break;
		if (held < proc->pid)
			lock_release(&lock);
	}
	if (!err && held)
		err = lock_refuse(proc);
	if (err)
		lock_release(&lock);
	*ret = lock;
	return err;
}

struct ht_err *lock_take(const struct proc *proc, struct lock *ret)
{
	gate_knock(proc);
	return lock_take_beside(proc, NULL, true, ret);
}

struct ht_err *lock_take_now(const struct proc *proc, struct lock *ret)
{
	return lock_take_beside(proc, NULL, false, ret);
}

void lock_release(struct lock *lock)
{
	fd_close(&lock->name_fd);
	fd_close(&lock->file_fd);
}
