/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/process/room.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <unistd.h>

#include "attach/proc/proc_file.h"
#include "attach/proc/proc_living.h"
#include "attach/proc/proc_status.h"
#include "attach/process/cgroup.h"

#define MAPPINGS_MAX_FILE    "/proc/sys/vm/max_map_count"
#define MAPPINGS_MAX_DEFAULT 65530u
#define COMMIT_FILE	     "/proc/sys/vm/overcommit_memory"
#define MEMORY_FILE	     "/proc/meminfo"
#define COMMIT_STRICT	     '2'
/* vm.admin_reserve_kbytes and vm.user_reserve_kbytes, by their defaults of 8 and 128 MiB */
#define COMMIT_RESERVE_BYTES (136ull << 20)

static uint64_t remaining(uint64_t limit, uint64_t used)
{
	if (limit == UINT64_MAX)
		return limit;
	return limit > used ? limit - used : 0;
}

static DIR *open_descriptors(const struct proc *proc)
{
	char path[PROC_PATH_BYTES];
	int fd = ht_err_drop(proc_file_path(proc, "fd", path))
			 ? -1
			 : openat(proc->dir_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir && fd >= 0)
		close(fd);
	return dir;
}

/* Counts the open descriptors and marks those below `count` in `used`. False: some were not
 * seen. */
static bool look_at_descriptors(const struct proc *proc, bool *used, int count, uint64_t *open)
{
	DIR *dir = open_descriptors(proc);
	*open = 0;
	if (!dir)
		return false;
	errno = 0;
	for (struct dirent *entry; (entry = readdir(dir));) {
		if (entry->d_name[0] == '.')
			continue;
		long fd = strtol(entry->d_name, NULL, 10);
		if (fd >= 0 && fd < count)
			used[fd] = true;
		++*open;
	}
	bool whole = errno == 0;
	closedir(dir);
	return whole;
}

int room_descriptor_table(const struct proc *proc)
{
	char *text = NULL;
	const int size = ht_err_drop(proc_text(proc, "status", &text))
				 ? 0
				 : (int)proc_file_number(text, "\nFDSize:", 10, 0);
	free(text);
	return size;
}

int room_free_descriptor(const struct proc *proc, int below)
{
	bool *used = calloc((size_t)below + 1, sizeof(*used));
	uint64_t open;
	int fd = 0;
	if (used && look_at_descriptors(proc, used, below, &open)) {
		fd = below - 1;
		while (fd > 0 && used[fd])
			fd--;
	}
	free(used);
	return fd < 0 ? 0 : fd;
}

static uint64_t mappings_max(void)
{
	char text[32];
	(void)proc_file_short(AT_FDCWD, MAPPINGS_MAX_FILE, text, sizeof(text));
	unsigned long max = strtoul(text, NULL, 10);
	return max ? max : MAPPINGS_MAX_DEFAULT;
}

uint64_t room_of_commit(const char *mode, const char *meminfo)
{
	const uint64_t limit_kib = proc_file_number(meminfo, "\nCommitLimit:", 10, UINT64_MAX);
	const uint64_t used_kib = proc_file_number(meminfo, "\nCommitted_AS:", 10, UINT64_MAX);
	if (mode[0] != COMMIT_STRICT || limit_kib == UINT64_MAX || used_kib == UINT64_MAX)
		return UINT64_MAX;
	return remaining(limit_kib << 10, (used_kib << 10) + COMMIT_RESERVE_BYTES);
}

static uint64_t commit_left(void)
{
	char mode[8], meminfo[1 << 13];
	(void)proc_file_short(AT_FDCWD, COMMIT_FILE, mode, sizeof(mode));
	(void)proc_file_short(AT_FDCWD, MEMORY_FILE, meminfo, sizeof(meminfo));
	return room_of_commit(mode, meminfo);
}

/* No file shows mlockall(MCL_FUTURE), but a process that has called it has most of its memory
 * locked. */
static bool locks_all(const struct proc_status *status)
{
	return status->locked_bytes > status->vm_bytes / 2 &&
	       !(status->cap_eff >> CAP_IPC_LOCK & 1);
}

struct ht_err *room_read(const struct proc *proc, const struct proc_maps *maps, struct room *ret)
{
	struct proc_status status;
	uint64_t open;
	HT_TRY(proc_status(proc, 0, &status));
	look_at_descriptors(proc, NULL, 0, &open);
	*ret = (struct room){
		.file_bytes = proc_limit(proc, "Max file size"),
		.address_bytes = remaining(proc_limit(proc, "Max address space"), status.vm_bytes),
		.data_bytes = remaining(proc_limit(proc, "Max data size"), status.data_bytes),
		.locked_bytes = locks_all(&status)
					? remaining(proc_limit(proc, "Max locked memory"),
						  status.locked_bytes)
					: UINT64_MAX,
		.descriptors = remaining(proc_limit(proc, "Max open files"), open),
		.mappings = remaining(mappings_max(), maps->count),
		.memory_bytes = room_of_cgroups(proc),
		.commit_bytes = commit_left(),
	};
	return NULL;
}

/* --- control groups --- */

/* The files and keys that the two versions name differently. */
struct names {
	const char *limit, *used, *reclaimable;
};

static const struct names unified_names = {"memory.max", "memory.current", "\ninactive_file "};
static const struct names legacy_names = {
	"memory.limit_in_bytes", "memory.usage_in_bytes", "\ntotal_inactive_file "};

/* Lowers `*context`, the least room so far, to the room in this group. */
static void take_room(void *context, bool unified, const char *directory)
{
	const struct names *names = unified ? &unified_names : &legacy_names;
	uint64_t *least = context;
	uint64_t limit = cgroup_number(directory, names->limit, NULL, UINT64_MAX);
	/* Version 1 writes a number near the largest for "no limit". */
	if (limit >= INT64_MAX / 2)
		return;
	uint64_t used = cgroup_number(directory, names->used, NULL, 0);
	uint64_t cached = cgroup_number(directory, "memory.stat", names->reclaimable, 0);
	used -= cached < used ? cached : used;
	uint64_t room = limit > used ? limit - used : 0;
	if (room < *least)
		*least = room;
}

uint64_t room_of_cgroups(const struct proc *proc)
{
	uint64_t least = UINT64_MAX;
	cgroup_each(proc, "memory", take_room, &least);
	return least;
}
