/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/process/memuse.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/proc/clock.h"
#include "attach/proc/fd.h"
#include "attach/proc/proc_living.h"
#include "attach/process/cgroup.h"
#include "attach/process/proc_open.h"

#define STATUS_MAX_BYTES (1u << 16)
#define TEXT_BYTES	 8192u
#define NUMBER_BYTES	 64u
#define GROUPS_PERIOD_NS (5 * CLOCK_NS_PER_S)
#define MINOR_FIELD	 10u /* of stat: proc(5) */
#define MAJOR_FIELD	 12u
#define STATE_FIELD	 3u

/* --- the process --- */

bool memuse_parse_status(const char *text, struct memory *ret)
{
	static const struct {
		const char *key;
		enum memory_kind kind;
	} line[] = {
		{"\nVmRSS:", MEMORY_RSS},
		{"\nRssAnon:", MEMORY_ANONYMOUS},
		{"\nRssFile:", MEMORY_FILE},
		{"\nRssShmem:", MEMORY_SHARED},
		{"\nVmSwap:", MEMORY_SWAP},
		{"\nVmHWM:", MEMORY_RSS_PEAK},
		{"\nVmPTE:", MEMORY_PAGE_TABLES},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(line); i++) {
		const uint64_t kib = proc_file_number(text, line[i].key, 10, UINT64_MAX);
		if (kib <= UINT64_MAX / 1024)
			memory_set(ret, line[i].kind, kib * 1024);
		else if (line[i].kind == MEMORY_RSS)
			return false;
	}
	return true;
}

void memuse_parse_stat(const char *text, struct memory *ret)
{
	/* A name may contain spaces and parentheses. */
	const char *at = strrchr(text, ')');
	for (unsigned field = STATE_FIELD - 1; at && field < MINOR_FIELD; field++)
		at = strchr(at + 1, ' ');
	uint64_t minor, major;
	if (!at || sscanf(at, " %" SCNu64 " %*u %" SCNu64, &minor, &major) != 2)
		return;
	memory_set(ret, MEMORY_MINOR_FAULTS, minor);
	memory_set(ret, MEMORY_MAJOR_FAULTS, major);
}

_Static_assert(MAJOR_FIELD == MINOR_FIELD + 2, "one field lies between them");

/* A text that does not fit counts as missing, because its end would be. */
static bool read_text(int fd, char *ret, size_t bytes)
{
	ssize_t length = fd < 0 ? -1 : pread(fd, ret, bytes - 1, 0);
	ret[length > 0 ? length : 0] = '\0';
	return length > 0 && (size_t)length < bytes - 1;
}

/* If the main thread has ended and others run on, its own status lacks the memory. */
static bool read_living(const struct proc *proc, struct memory *ret)
{
	char *text = NULL;
	bool has_memory = !ht_err_drop(proc_file_read_living(
				  proc, "status", STATUS_MAX_BYTES, &text, NULL)) &&
			  memuse_parse_status(text, ret);
	free(text);
	return has_memory;
}

/* --- its control group --- */

struct groups {
	uint64_t least;
	char used_path[2 * 4096 + 64], limit_path[2 * 4096 + 64];
};

/* Chooses the group with the lowest limit; among those with the same limit, the process's own or
 * the nearest to it. */
static void look_at_group(void *context, bool unified, const char *directory)
{
	struct groups *groups = context;
	const char *limit_file = unified ? "memory.max" : "memory.limit_in_bytes";
	const char *used_file = unified ? "memory.current" : "memory.usage_in_bytes";
	uint64_t limit = cgroup_number(directory, limit_file, NULL, UINT64_MAX);
	if (cgroup_number(directory, used_file, NULL, UINT64_MAX) == UINT64_MAX)
		return;
	if (groups->used_path[0] && limit >= groups->least)
		return;
	groups->least = limit;
	snprintf(groups->used_path, sizeof(groups->used_path), "%s/%s", directory, used_file);
	snprintf(groups->limit_path, sizeof(groups->limit_path), "%s/%s", directory, limit_file);
}

static void close_groups(struct memuse *memuse)
{
	fd_close(&memuse->cgroup_fd);
	fd_close(&memuse->limit_fd);
}

static void open_groups(struct memuse *memuse)
{
	struct groups groups = {.least = UINT64_MAX};
	close_groups(memuse);
	cgroup_each(memuse->proc, "memory", look_at_group, &groups);
	if (!groups.used_path[0])
		return;
	memuse->cgroup_fd = open(groups.used_path, O_RDONLY | O_CLOEXEC);
	memuse->limit_fd = open(groups.limit_path, O_RDONLY | O_CLOEXEC);
}

static void read_groups(struct memuse *memuse, struct memory *ret)
{
	char text[NUMBER_BYTES];
	uint64_t number;
	if (read_text(memuse->cgroup_fd, text, sizeof(text)) &&
		sscanf(text, "%" SCNu64, &number) == 1)
		memory_set(ret, MEMORY_CGROUP, number);
	if (!read_text(memuse->limit_fd, text, sizeof(text)))
		return;
	/* "max"; version 1 writes a number near the largest for "no limit". */
	if (sscanf(text, "%" SCNu64, &number) != 1 || number >= INT64_MAX / 2)
		number = MEMORY_NO_LIMIT;
	memory_set(ret, MEMORY_CGROUP_LIMIT, number);
}

/* --- all --- */

void memuse_open(struct memuse *memuse, const struct proc *proc)
{
	*memuse = (struct memuse){.proc = proc,
		.status_fd = openat(proc->dir_fd, "status", O_RDONLY | O_CLOEXEC),
		.stat_fd = openat(proc->dir_fd, "stat", O_RDONLY | O_CLOEXEC),
		.cgroup_fd = -1,
		.limit_fd = -1};
}

void memuse_close(struct memuse *memuse)
{
	if (!memuse->proc)
		return;
	close_groups(memuse);
	fd_close(&memuse->status_fd);
	fd_close(&memuse->stat_fd);
	*memuse = (struct memuse){0};
}

bool memuse_read(struct memuse *memuse, uint64_t now_ns, struct memory *ret)
{
	char text[TEXT_BYTES];
	bool has_memory =
		read_text(memuse->status_fd, text, sizeof(text)) && memuse_parse_status(text, ret);
	if (!has_memory && !read_living(memuse->proc, ret))
		return false;
	if (read_text(memuse->stat_fd, text, sizeof(text)))
		memuse_parse_stat(text, ret);
	if (now_ns >= memuse->next_groups_ns) {
		memuse->next_groups_ns = now_ns + GROUPS_PERIOD_NS;
		open_groups(memuse);
	}
	read_groups(memuse, ret);
	/* Last, so that everything read before belongs to the recorded program. */
	return proc_changed(memuse->proc) == PROC_SAME;
}
