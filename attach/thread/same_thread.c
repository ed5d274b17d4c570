/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/thread/same_thread.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "attach/memory/memory.h"
#include "attach/memory/proc_maps.h"
#include "attach/proc/proc_file.h"
#include "attach/proc/proc_status.h"
#include "attach/proc/proc_tids.h"

/* False for a stack; then the read below never makes a file system serve a page. The word is
 * aligned, so it lies in one mapping. */
static bool is_of_file(const struct same_thread *same)
{
	const struct proc_map *map = proc_maps_find(same->maps, same->tid_at);
	return map && map->inode;
}

/* The order matters. While the file is readable, the kernel gives the number to no other thread. So
 * the thread that wrote this number there was this one, and had not reached the point where the
 * kernel clears it. After that point another thread may have the place while the file is still
 * readable. */
bool same_thread_lives(const struct same_thread *same)
{
	uint32_t tid = 0;
	char byte;
	size_t got = 0;

	if (!same->task || is_of_file(same))
		return false;
	ht_err_free(memory_read_some(same->proc, same->tid_at, &tid, sizeof(tid), &got));
	return got == sizeof(tid) && tid == same->tid && pread(same->fd, &byte, 1, 0) == 1;
}

/* `task`: the number in our PID namespace. */
static bool try_task(struct same_thread *same, pid_t task)
{
	char path[PROC_PATH_BYTES];
	/* A cheap file, whose read takes no lock that signals to the thread wait for. */
	snprintf(path, sizeof(path), "task/%d/comm", task);
	same->fd = openat(same->proc->dir_fd, path, O_RDONLY | O_CLOEXEC);
	if (same->fd < 0)
		return false;
	same->task = task;
	if (proc_ns_tid(same->proc, task) == (pid_t)same->tid && same_thread_lives(same))
		return true;
	close(same->fd);
	same->task = 0;
	return false;
}

bool same_thread_open(struct same_thread *ret, const struct proc *proc,
	const struct proc_maps *maps, uint32_t tid, raddr_t tid_at)
{
	struct same_thread same = {.proc = proc, .maps = maps, .tid = tid, .tid_at = tid_at};
	struct proc_tids tids;
	bool can_be = tid && tid_at % sizeof(tid) == 0;
	bool found = can_be && try_task(&same, (pid_t)tid);
	struct ht_err *err = can_be && !found ? proc_tids_read(proc, &tids) : NULL;
	if (can_be && !found && !err) {
		for (size_t i = 0; i < tids.count && !found; i++)
			found = proc_ns_tid(proc, tids.tid[i]) == (pid_t)tid &&
				try_task(&same, tids.tid[i]);
		proc_tids_deinit(&tids);
	}
	ht_err_free(err);
	*ret = found ? same : (struct same_thread){0};
	return found;
}

void same_thread_close(struct same_thread *same)
{
	if (same->task)
		close(same->fd);
	*same = (struct same_thread){0};
}
