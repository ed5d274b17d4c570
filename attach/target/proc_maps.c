/* SPDX-License-Identifier: Apache-2.0
 *
 * The mappings of a process: /proc/PID/maps.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attach/target/proc.h"
#include "attach/target/proc_file.h"

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

/* The kernel writes the list piece by piece; a mapping that grew downwards by a merge in between
 * comes again with a lower start. False when nothing of it is new. */
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
				"cannot understand a line of /proc/%d/maps: '%s'", proc->pid, line);
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
	if (!err)
		err = maps_parse(proc, ret);
	/* Every living program maps something: the one we asked about ended meanwhile. */
	if (!err && !ret->count)
		err = ht_err_new(HT_ERR_TARGET_GONE, "process %d has ended", proc->pid);
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

const struct proc_map *proc_maps_find(const struct proc_maps *maps, raddr_t addr)
{
	size_t lo = 0, hi = maps->count;
	while (lo < hi) {
		size_t middle = lo + (hi - lo) / 2;
		const struct proc_map *map = &maps->map[middle];
		if (addr < map->lo)
			hi = middle;
		else if (addr >= map->hi)
			lo = middle + 1;
		else
			return map;
	}
	return NULL;
}
