/* SPDX-License-Identifier: Apache-2.0
 *
 * The threads of a process, none that lives missing.
 *
 * The kernel walks its list of them in the order of their birth. When the one that it has got to
 * ends in that moment it stops, as if that were the last; a second call goes on by number, and
 * leaves out as many living ones as have ended before them. But one call gives a beginning of the
 * list without gaps, and Threads in status is the length of the list at one moment: both change
 * under one lock. So a call that began later and gives at least as many has come past all that were
 * there then: had it missed one of them, it would have met none of the younger ones that could have
 * made up for it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "attach/proc/proc.h"
#include "attach/proc/proc_file.h"

#define ENTRY_BYTES_MIN 24u
#define ENTRY_BYTES_MAX 32u   /* with a number of ten digits */
#define ROOM_ENTRIES	64u   /* for those born meanwhile */
#define ATTEMPTS_MAX	1000u /* where threads end all the time about every second one succeeds */

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

/* A beginning of the list, of at least `wanted` if there are as many. */
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
	if (fd >= 0)
		close(fd);
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
		if (!err)
			err = list_once(proc, status.threads, ret);
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
	bool any = false;
	struct ht_err *err = proc_tids_read(proc, &tids);

	if (err)
		return err;
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
