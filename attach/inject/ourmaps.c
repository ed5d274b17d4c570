/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/inject/ourmaps.h"

#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "attach/inject/near.h"
#include "attach/memory/ours.h"
#include "attach/memory/proc_maps.h"

struct ht_err *ourmaps_read(const struct proc *proc, struct ourmaps *ret)
{
	struct ourmaps found = {0};
	HT_CLEANUP(proc_maps_deinit) struct proc_maps maps = {0};
	HT_TRY(proc_maps_read(proc, &maps));
	for (size_t i = 0; i < maps.count; i++) {
		const struct proc_map *map = &maps.map[i];
		if (!ours_is(map->name) || near_is_area(map))
			continue;
		bool page = map->offset == ABI_THUNKS_OFF && map->hi - map->lo == HT_PAGE_BYTES;
		/* Do not report a jump page beside an image: the image has such a page, and perhaps
		 * that of an earlier capture. */
		if (page && found.image)
			continue;
		found.tombstone |= page;
		found.image |= !page;
		found.whole |= map->offset == ABI_SHARED_OFF && map->shared;
		found.base = map->lo - map->offset;
		found.file = (struct image_file){
			.dev = makedev(map->dev_major, map->dev_minor), .inode = map->inode};
		found.daemon_pid = (pid_t)strtol(map->name + strlen(OURS_NAME), NULL, 10);
	}
	found.tombstone &= !found.image;
	*ret = found;
	return NULL;
}
