/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists the threads of a process without missing a living one.
 *
 * The kernel walks its list of threads in the order of their birth. If the thread at which the walk
 * stands ends at that moment, the walk stops as if that thread were the last. A second getdents
 * call continues by number and skips as many living threads as have ended before them. But one call
 * returns a gapless beginning of the list, and Threads in status is the length of the list at one
 * moment; both change under one lock. So a later call that returns at least that many entries has
 * passed every thread of that moment: had it stopped before one of them, it would have seen none of
 * the younger threads that could make up the number.
 */
#include "attach/proc/proc_tids.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/proc/fd.h"
#include "attach/proc/proc_file.h"
#include "attach/proc/proc_status_text.h"

#define PF_IO_WORKER	0x00000010u
#define PF_USER_WORKER	0x00004000u
#define STAT_MAX_BYTES	2048u
#define LOOKS		2u /* looks without result before a task counts as gone */
#define ENTRY_BYTES_MIN 24u
#define ENTRY_BYTES_MAX 32u   /* with a number of ten digits */
#define ROOM_ENTRIES	64u   /* for threads that begin meanwhile */
#define ATTEMPTS_MAX	1000u /* if threads end all the time, about every second attempt succeeds */

static struct ht_err *no_memory(const struct proc *proc)
{
	return ht_err_new(HT_ERR_NOMEM, "no memory for the threads of process %d", proc->pid);
}

static struct ht_err *entries_take(
	const struct proc *proc, const uint8_t *entries, size_t length, struct proc_tids *ret)
{
	*ret = (struct proc_tids){.tid = calloc(length / ENTRY_BYTES_MIN + 1, sizeof(*ret->tid))};
	if (!ret->tid)
		return no_memory(proc);
	for (size_t at = 0; at < length;) {
		const struct dirent64 *entry = (const void *)(entries + at);
		pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
		if (tid > 0)
			ret->tid[ret->count++] = tid;
		at += entry->d_reclen;
	}
	return NULL;
}

/* Reads a gapless beginning of the list, of at least `wanted` threads if there are as many. */
static struct ht_err *list_once(const struct proc *proc, size_t wanted, struct proc_tids *ret)
{
	size_t room = (wanted + ROOM_ENTRIES) * ENTRY_BYTES_MAX;
	uint8_t *entries = malloc(room);
	if (!entries)
		return no_memory(proc);
	int fd = openat(proc->dir_fd, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : getdents64(fd, entries, room);
	struct ht_err *err = got < 0 ? proc_file_failed(proc, "task", errno)
				     : entries_take(proc, entries, (size_t)got, ret);
	fd_close(&fd);
	free(entries);
	return err;
}

struct ht_err *proc_tids_read(const struct proc *proc, struct proc_tids *ret)
{
	for (unsigned attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
		struct proc_status status;
		pid_t tgid;
		*ret = (struct proc_tids){0};
		struct ht_err *err = proc_status_leader(proc, &status, &tgid);
		HT_THEN(err, list_once(proc, status.threads, ret));
		if (err || ret->count >= status.threads)
			return err;
		proc_tids_deinit(ret);
	}
	return ht_err_new(HT_ERR_REFUSED,
		"the threads of process %d end faster than they can be listed; try again",
		proc->pid);
}

void proc_tids_deinit(struct proc_tids *tids)
{
	free(tids->tid);
	*tids = (struct proc_tids){0};
}

struct ht_err *proc_has_thread(const struct proc *proc, pid_t tid, bool *ret)
{
	char path[PROC_PATH_BYTES];
	snprintf(path, sizeof(path), "task/%d/status", tid);
	return proc_file_exists(proc, proc->dir_fd, path, ret);
}

/* The name is the only text in stat, and may contain parentheses, spaces and newlines; only numbers
 * follow the last ')'. */
static bool stat_parse(const char *text, struct proc_stat *ret)
{
	const char *name = strchr(text, '('), *at = strrchr(text, ')');
	snprintf(ret->name, sizeof(ret->name), "%s", name ? name + 1 : "");
	return at && sscanf(at + 1,
			     " %c %d %*d %*d %*d %*d %lu %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d"
			     " %*d %*d %" SCNu64,
			     &ret->state, &ret->parent, &ret->flags, &ret->start_ticks) == 4;
}

static bool is_nothing(int sys)
{
	return sys == ENOENT || sys == ESRCH;
}

/* Returns 0 or an errno. */
static int stat_read_once(int dir_fd, const char *path, struct proc_stat *ret)
{
	char text[STAT_MAX_BYTES];
	if (proc_file_short(dir_fd, path, text, sizeof(text)) < 0)
		return errno;
	return stat_parse(text, ret) ? 0 : EBADMSG;
}

struct ht_err *proc_stat_read(
	const struct proc *proc, const char *path, struct proc_stat *ret, bool *ret_there)
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

struct ht_err *proc_task_lives(const struct proc *proc, const char *path, bool *ret)
{
	struct proc_stat stat;
	struct ht_err *err = proc_stat_read(proc, path, &stat, ret);
	*ret = !err && *ret && !strchr("ZXx", stat.state);
	return err;
}

static bool is_called(const struct proc_stat *stat, const char *beginning)
{
	return strncmp(stat->name, beginning, strlen(beginning)) == 0;
}

/* Judges by flags and by names. No program can set these flags, but they meant something else in
 * older kernels; the names are those that the kernel gives to workers of io_uring and of virtual
 * machines (vhost, KVM). */
static bool is_worker(const struct proc_stat *stat)
{
	return (stat->flags & PF_IO_WORKER && is_called(stat, "iou-")) ||
	       (stat->flags & PF_USER_WORKER &&
		       (is_called(stat, "vhost-") || is_called(stat, "kvm-nx-")));
}

struct ht_err *proc_is_worker(const struct proc *proc, pid_t tid, bool *ret)
{
	char path[PROC_PATH_BYTES];
	struct proc_stat stat;
	snprintf(path, sizeof(path), "task/%d/stat", tid);
	struct ht_err *err = proc_stat_read(proc, path, &stat, ret);
	*ret = !err && *ret && is_worker(&stat);
	return err;
}

struct ht_err *proc_living_tid(const struct proc *proc, pid_t *ret)
{
	bool lives;
	struct proc_tids tids;
	struct ht_err *err = proc_task_lives(proc, "stat", &lives);
	*ret = !err && lives ? proc->pid : 0;
	if (err || lives || proc_has_exited(proc))
		return err;
	HT_TRY(proc_tids_read(proc, &tids));
	for (size_t i = 0; !err && !*ret && i < tids.count; i++) {
		char path[64];
		snprintf(path, sizeof(path), "task/%d/stat", tids.tid[i]);
		err = proc_task_lives(proc, path, &lives);
		*ret = !err && lives ? tids.tid[i] : 0;
	}
	proc_tids_deinit(&tids);
	return err;
}
