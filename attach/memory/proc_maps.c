/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/memory/proc_maps.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attach/memory/slow.h"
#include "attach/proc/fd.h"
#include "attach/proc/proc_file.h"
#include "attach/proc/proc_living.h"

/* "LO-HI rwxp OFFSET MAJOR:MINOR INODE          NAME", all numbers but the inode hexadecimal. */
static bool line_parse(char *line, struct proc_map *ret)
{
	char perms[5];
	int name_at = 0;
	if (sscanf(line,
		    "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %" SCNx32 ":%" SCNx32 " %" SCNu64 "%n",
		    &ret->lo, &ret->hi, perms, &ret->offset, &ret->dev_major, &ret->dev_minor,
		    &ret->inode, &name_at) != 7 ||
		strlen(perms) != 4 || ret->lo >= ret->hi)
		return false;
	ret->read = perms[0] == 'r';
	ret->write = perms[1] == 'w';
	ret->exec = perms[2] == 'x';
	ret->shared = perms[3] == 's';
	ret->name = line + name_at + strspn(line + name_at, " ");
	return true;
}

/* The kernel writes the list piece by piece. A mapping that grows downwards by a merge in between
 * appears again with a lower start. Returns false if nothing of it is new. */
static bool clip_to(struct proc_map *map, raddr_t end)
{
	if (map->hi <= end)
		return false;
	if (map->lo < end) {
		if (map->inode)
			map->offset += end - map->lo;
		map->lo = end;
	}
	return true;
}

static size_t lines_count(const char *text)
{
	size_t count = 1;
	for (; (text = strchr(text, '\n')); text++)
		count++;
	return count;
}

static struct ht_err *maps_parse(const struct proc *proc, struct proc_maps *maps)
{
	maps->map = calloc(lines_count(maps->text), sizeof(*maps->map));
	if (!maps->map)
		return ht_err_new(
			HT_ERR_NOMEM, "no memory for the mappings of process %d", proc->pid);
	raddr_t end = 0;
	char *rest = maps->text;
	for (char *line; (line = strsep(&rest, "\n")) && *line;) {
		struct proc_map *map = &maps->map[maps->count];
		if (!line_parse(line, map))
			return ht_err_new(HT_ERR_FORMAT,
				"cannot parse a line of /proc/%d/maps: '%s'", proc->pid, line);
		if (!clip_to(map, end))
			continue;
		end = map->hi;
		maps->count++;
	}
	return NULL;
}

struct ht_err *proc_maps_read(const struct proc *proc, struct proc_maps *ret)
{
	*ret = (struct proc_maps){0};
	struct ht_err *err = proc_file_read_living(proc, "maps", SIZE_MAX, &ret->text, NULL);
	HT_THEN(err, maps_parse(proc, ret));
	/* Every living program has mappings: an empty list means that the process ended
	 * meanwhile. */
	if (!err && !ret->count)
		err = proc_gone(proc);
	HT_THEN(err, slow_remember(proc, ret));
	if (err)
		proc_maps_deinit(ret);
	return err;
}

void proc_maps_deinit(struct proc_maps *maps)
{
	free(maps->map);
	free(maps->text);
	*maps = (struct proc_maps){0};
}

static int compare(const void *key, const void *element)
{
	raddr_t addr = *(const raddr_t *)key;
	const struct proc_map *map = element;
	return addr < map->lo ? -1 : addr >= map->hi;
}

const struct proc_map *proc_maps_find(const struct proc_maps *maps, raddr_t addr)
{
	return maps->count ? bsearch(&addr, maps->map, maps->count, sizeof(*maps->map), compare)
			   : NULL;
}

/* struct procmap_query of linux/fs.h (6.11). */
struct map_query {
	uint64_t bytes, flags, addr;
	uint64_t lo, hi, map_flags, page_bytes, offset, inode;
	uint32_t dev_major, dev_minor;
	uint32_t name_bytes, build_id_bytes;
	uint64_t name, build_id;
};

#define MAP_QUERY    _IOWR('f', 17, struct map_query)
#define QUERY_READ   0x1u
#define QUERY_WRITE  0x2u
#define QUERY_EXEC   0x4u
#define QUERY_SHARED 0x8u
#define QUERY_NEXT   0x10u

static int query(int fd, raddr_t addr, uint64_t flags, struct map_query *ret)
{
	*ret = (struct map_query){.bytes = sizeof(*ret), .addr = addr, .flags = flags};
	return ioctl(fd, MAP_QUERY, ret);
}

static struct proc_map map_of(const struct map_query *found)
{
	return (struct proc_map){.lo = found->lo,
		.hi = found->hi,
		.offset = found->offset,
		.dev_major = found->dev_major,
		.dev_minor = found->dev_minor,
		.inode = found->inode,
		.read = found->map_flags & QUERY_READ,
		.write = found->map_flags & QUERY_WRITE,
		.exec = found->map_flags & QUERY_EXEC,
		.shared = found->map_flags & QUERY_SHARED};
}

struct ht_err *proc_lookup_begin(const struct proc *proc, struct proc_lookup *ret)
{
	char path[PROC_PATH_BYTES];
	struct map_query asked;

	*ret = (struct proc_lookup){.proc = proc, .fd = -1};
	HT_TRY(proc_file_path(proc, "maps", path));
	int fd = openat(proc->dir_fd, path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && (query(fd, 0, 0, &asked) == 0 || errno == ENOENT)) {
		ret->fd = fd;
		return NULL;
	}
	fd_close(&fd);
	return proc_maps_read(proc, &ret->maps);
}

void proc_lookup_end(struct proc_lookup *lookup)
{
	fd_close(&lookup->fd);
	proc_maps_deinit(&lookup->maps);
}

static bool find_in(const struct proc_maps *maps, raddr_t addr, struct proc_map *ret)
{
	const struct proc_map *map = proc_maps_find(maps, addr);
	if (map) {
		*ret = *map;
		ret->name = NULL;
	}
	return map != NULL;
}

static bool find_in_text(const struct proc *proc, raddr_t addr, struct proc_map *ret)
{
	HT_CLEANUP(proc_maps_deinit) struct proc_maps maps = {0};
	return !ht_err_drop(proc_maps_read(proc, &maps)) && find_in(&maps, addr, ret);
}

bool proc_lookup_find(const struct proc_lookup *lookup, raddr_t addr, struct proc_map *ret)
{
	struct map_query found;

	if (lookup->fd < 0)
		return find_in(&lookup->maps, addr, ret);
	/* A failed query does not mean that nothing is mapped. */
	if (query(lookup->fd, addr, 0, &found) < 0)
		return errno != ENOENT && find_in_text(lookup->proc, addr, ret);
	*ret = map_of(&found);
	return true;
}

static bool next_in(const struct proc_maps *maps, raddr_t addr, struct proc_map *ret)
{
	for (size_t i = 0; i < maps->count; i++) {
		if (maps->map[i].hi <= addr)
			continue;
		*ret = maps->map[i];
		ret->name = NULL;
		return true;
	}
	return false;
}

struct ht_err *proc_lookup_next(
	const struct proc_lookup *lookup, raddr_t addr, struct proc_map *ret, bool *ret_found)
{
	struct map_query found;

	if (lookup->fd < 0) {
		*ret_found = next_in(&lookup->maps, addr, ret);
		return NULL;
	}
	*ret_found = query(lookup->fd, addr, QUERY_NEXT, &found) == 0;
	if (!*ret_found)
		return errno == ENOENT ? NULL : proc_file_failed(lookup->proc, "maps", errno);
	*ret = map_of(&found);
	return NULL;
}

/* Regular files only: opening another kind may have an effect or block forever. */
static int open_same_file(int dir_fd, const char *name, const struct proc_map *map)
{
	struct stat st;
	int fd = openat(dir_fd, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	if (fd < 0 || (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_ino == map->inode))
		return fd;
	close(fd);
	errno = ESTALE;
	return -1;
}

struct ht_err *proc_open_mapped(const struct proc *proc, const struct proc_map *map, int *ret)
{
	char name[64], root[PROC_PATH_BYTES];

	snprintf(name, sizeof(name), "map_files/%" PRIx64 "-%" PRIx64, map->lo, map->hi);
	*ret = open_same_file(proc->dir_fd, name, map);
	if (*ret >= 0)
		return NULL;
	HT_TRY(proc_file_path(proc, "root", root));
	int root_fd = openat(proc->dir_fd, root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root_fd >= 0 && map->name[0] == '/')
		*ret = open_same_file(root_fd, map->name + 1, map);
	int sys = errno;
	fd_close(&root_fd);
	if (*ret >= 0)
		return NULL;
	return ht_err_new(HT_ERR_INCOMPLETE,
		"cannot open %s, which process %d has mapped: %s (root can)", map->name, proc->pid,
		strerror(sys));
}
