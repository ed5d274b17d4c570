/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/memory/slow.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attach/proc/fd.h"
#include "attach/proc/proc_living.h"

#define TOUCH_BYTES_MAX (1ull << 28) /* larger files are data */

struct mount {
	uint32_t major, minor;
	bool slow;
};

struct mounts {
	struct mount *mount;
	size_t count;
	bool has_others; /* mounts that the target does not see were added */
};

struct range {
	raddr_t lo, hi;
};

/* The ranges that this process avoids. */
static struct {
	bool on;
	struct range *range;
	size_t count;
} avoided;

static bool starts_with(const char *text, const char *start)
{
	return strncmp(text, start, strlen(start)) == 0;
}

static bool is_slow_type(const char *type)
{
	static const char *const types[] = {"fuse", "virtiofs", "nfs", "cifs", "smb", "9p", "ceph",
		"afs", "lustre", "coda", "ocfs2", "gfs2", "orangefs", "autofs"};
	for (size_t i = 0; i < HT_ARRAY_SIZE(types); i++)
		if (starts_with(type, types[i]))
			return true;
	return false;
}

/* "ID PARENT MAJOR:MINOR ROOT PLACE OPTIONS [FIELDS] - TYPE SOURCE OPTIONS" */
static bool line_parse(const char *line, struct mount *ret)
{
	const char *type = strstr(line, " - ");
	if (!type || sscanf(line, "%*u %*u %u:%u", &ret->major, &ret->minor) != 2)
		return false;
	ret->slow = is_slow_type(type + 3);
	return true;
}

static void mounts_deinit(struct mounts *mounts)
{
	free(mounts->mount);
}

static struct ht_err *mounts_add(struct mounts *mounts, char *text)
{
	size_t room = mounts->count + 1;
	for (const char *c = text; *c; c++)
		room += *c == '\n';
	struct mount *mount = realloc(mounts->mount, room * sizeof(*mount));
	if (!mount)
		return ht_err_new(HT_ERR_NOMEM, "no memory for %zu mounts", room);
	mounts->mount = mount;
	for (char *line; (line = strsep(&text, "\n")) && *line;)
		mounts->count += line_parse(line, &mount[mounts->count]);
	return NULL;
}

/* Adds the target's mounts. */
static struct ht_err *mounts_read(const struct proc *proc, struct mounts *ret)
{
	char *text;
	HT_TRY(proc_file_read_living(proc, "mountinfo", SIZE_MAX, &text, NULL));
	struct ht_err *err = mounts_add(ret, text);
	free(text);
	return err;
}

/* Adds mounts that the target does not see: in a chroot, mountinfo lacks the mount in which the
 * chroot is. This process, or process 1, lists it. A file that cannot be read is left out. */
static void mounts_add_others(struct mounts *mounts)
{
	static const char *const path[] = {"/proc/self/mountinfo", "/proc/1/mountinfo"};
	for (size_t i = 0; i < HT_ARRAY_SIZE(path); i++) {
		char *text = NULL;
		size_t room = 0;
		FILE *file = fopen(path[i], "re");
		if (file && getdelim(&text, &room, '\0', file) > 0)
			ht_err_free(mounts_add(mounts, text));
		free(text);
		if (file)
			fclose(file);
	}
	mounts->has_others = true;
}

/* Memory whose name in maps is not that of a file. */
static bool is_kernel_object(const struct proc_map *map)
{
	static const char *const names[] = {
		"/memfd:", "/SYSV", "/dev/zero", "/dev/shm/", "anon_inode:", "[", "/anon_hugepage"};
	for (size_t i = 0; i < HT_ARRAY_SIZE(names); i++)
		if (starts_with(map->name, names[i]))
			return true;
	return !map->inode;
}

static const struct mount *mount_of(const struct mounts *mounts, const struct proc_map *map)
{
	for (size_t i = 0; i < mounts->count; i++)
		if (mounts->mount[i].major == map->dev_major &&
			mounts->mount[i].minor == map->dev_minor)
			return &mounts->mount[i];
	return NULL;
}

/* A device that is mounted nowhere has been unmounted lazily: its kind is unknown, so it counts as
 * slow. The number of a device is that of one file system, in every namespace. */
static bool is_slow(struct mounts *mounts, const struct proc_map *map)
{
	const struct mount *mount = mount_of(mounts, map);
	if (!mount && is_kernel_object(map))
		return false;
	if (!mount && !mounts->has_others) {
		mounts_add_others(mounts);
		mount = mount_of(mounts, map);
	}
	return !mount || mount->slow;
}

struct ht_err *slow_find(const struct proc *proc, const struct proc_maps *maps, char **ret)
{
	HT_CLEANUP(mounts_deinit) struct mounts mounts = {0};
	*ret = NULL;
	HT_TRY(mounts_read(proc, &mounts));
	for (size_t i = 0; i < maps->count; i++) {
		if (!is_slow(&mounts, &maps->map[i]))
			continue;
		*ret = strdup(maps->map[i].name);
		return *ret ? NULL : ht_err_new(HT_ERR_NOMEM, "no memory for a path");
	}
	return NULL;
}

/* map_files also reaches a file that its path no longer leads to, or does not lead to from here. */
static int map_open(const struct proc *proc, const struct proc_map *map)
{
	char name[64];
	snprintf(name, sizeof(name), "map_files/%lx-%lx", (unsigned long)map->lo,
		(unsigned long)map->hi);
	int fd = openat(proc->dir_fd, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 && map->name[0] == '/')
		fd = open(map->name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return fd;
}

static void map_touch(const struct proc *proc, const struct proc_map *map)
{
	static uint8_t buffer[1u << 16];
	uint64_t end = map->offset + (map->hi - map->lo);
	struct stat stat;
	FD_GUARD int fd = map_open(proc, map);
	if (fd < 0)
		return;
	bool same = !fstat(fd, &stat) && S_ISREG(stat.st_mode) && stat.st_ino == map->inode;
	for (uint64_t at = map->offset; same && at < end; at += sizeof(buffer))
		if (pread(fd, buffer, sizeof(buffer), (off_t)at) <= 0)
			break;
}

struct ht_err *slow_touch(const struct proc *proc, const struct proc_maps *maps)
{
	HT_CLEANUP(mounts_deinit) struct mounts mounts = {0};
	HT_TRY(mounts_read(proc, &mounts));
	for (size_t i = 0; i < maps->count; i++)
		if (is_slow(&mounts, &maps->map[i]) &&
			maps->map[i].hi - maps->map[i].lo <= TOUCH_BYTES_MAX)
			map_touch(proc, &maps->map[i]);
	return NULL;
}

void slow_avoid(void)
{
	avoided.on = true;
}

bool slow_is_avoided(void)
{
	return avoided.on;
}

struct ht_err *slow_remember(const struct proc *proc, const struct proc_maps *maps)
{
	HT_CLEANUP(mounts_deinit) struct mounts mounts = {0};
	if (!avoided.on)
		return NULL;
	HT_TRY(mounts_read(proc, &mounts));
	struct range *range = calloc(maps->count + 1, sizeof(*range));
	if (!range)
		return ht_err_new(HT_ERR_NOMEM, "no memory for %zu mappings", maps->count);
	free(avoided.range);
	avoided.range = range;
	avoided.count = 0;
	for (size_t i = 0; i < maps->count; i++)
		if (is_slow(&mounts, &maps->map[i]))
			range[avoided.count++] = (struct range){maps->map[i].lo, maps->map[i].hi};
	return NULL;
}

bool slow_is_in(raddr_t addr, size_t length)
{
	for (size_t i = 0; i < avoided.count; i++)
		if (addr < avoided.range[i].hi && avoided.range[i].lo < addr + length)
			return true;
	return false;
}
