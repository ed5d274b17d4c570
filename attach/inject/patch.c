/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/inject/patch.h"

#include <sys/sysmacros.h>

static uint64_t map_dev(const struct proc_map *map)
{
	return makedev(map->dev_major, map->dev_minor);
}

struct ht_err *patch_tap(const struct proc *proc, const struct proc_maps *maps,
	const struct slot *slot, raddr_t thunk, struct journal *journal, bool *ret_done)
{
	const struct proc_map *map = proc_maps_find(maps, slot->addr);
	uint64_t now;

	*ret_done = false;
	if (!map)
		return NULL;
	struct ht_err *err = memory_read_u64(proc, slot->addr, &now);
	if (err && err->code == HT_ERR_SYS) {
		ht_err_free(err);
		return NULL;
	}
	if (err)
		return err;
	if (now != slot->value)
		return NULL;
	err = journal_add(journal, &(struct journal_slot){.addr = slot->addr,
					   .original = slot->value,
					   .thunk = thunk,
					   .dev = map_dev(map),
					   .inode = map->inode,
					   .hook = (uint32_t)slot->hook});
	if (err)
		return err;
	err = memory_write_u64(proc, slot->addr, thunk);
	*ret_done = err == NULL;
	return err;
}

static bool same_mapping(const struct proc_maps *maps, const struct journal_slot *entry)
{
	const struct proc_map *map = proc_maps_find(maps, entry->addr);
	return map && map_dev(map) == entry->dev && map->inode == entry->inode;
}

static struct ht_err *restore(
	const struct proc *proc, const struct proc_maps *maps, struct journal_slot *entry)
{
	uint64_t now;

	if (entry->state != JOURNAL_SLOT_INTENDED)
		return NULL;
	if (!same_mapping(maps, entry)) {
		entry->state = JOURNAL_SLOT_LOST;
		return NULL;
	}
	struct ht_err *err = memory_read_u64(proc, entry->addr, &now);
	if (err)
		return err;
	if (now == entry->thunk) {
		err = memory_write_u64(proc, entry->addr, entry->original);
		if (err)
			return err;
	}
	entry->state = now == entry->thunk || now == entry->original ? JOURNAL_SLOT_RESTORED
								     : JOURNAL_SLOT_LOST;
	return NULL;
}

struct ht_err *patch_untap_all(
	const struct proc *proc, struct journal *journal, struct patch_report *ret)
{
	struct patch_report report = {0};
	struct proc_maps maps;
	struct ht_err *err = proc_maps_read(proc, &maps);
	if (err)
		return err;
	struct ht_err *first = NULL;
	/* Frees were tapped first and stay last: an allocation never goes unseen while its free is
	 * seen. */
	for (uint32_t i = journal->header->slot_count; i-- > 0;)
		first = ht_err_first(first, restore(proc, &maps, &journal->slot[i]));
	for (uint32_t i = 0; i < journal->header->slot_count; i++) {
		report.tapped++;
		report.restored += journal->slot[i].state == JOURNAL_SLOT_RESTORED;
		report.lost += journal->slot[i].state == JOURNAL_SLOT_LOST;
	}
	proc_maps_deinit(&maps);
	*ret = report;
	return first;
}
