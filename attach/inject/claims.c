/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/inject/claims.h"

#include "attach/elf/modules.h"
#include "attach/got/slots.h"
#include "attach/stub/choose.h"
#include "attach/memory/memory.h"
#include "attach/memory/proc_maps.h"

struct facts {
	struct proc_maps maps;
	struct modules modules;
	struct slots slots;
};

static struct ht_err *facts_read(const struct proc *proc, struct facts *ret)
{
	HT_TRY(proc_maps_read(proc, &ret->maps));
	HT_TRY(modules_read(proc, &ret->maps, &ret->modules));
	return slots_read_left(proc, &ret->modules, &ret->slots);
}

static void facts_deinit(struct facts *facts)
{
	slots_deinit(&facts->slots);
	modules_deinit(&facts->modules);
	proc_maps_deinit(&facts->maps);
}

static struct ht_err *damaged(const struct proc *proc, const char *what)
{
	return ht_err_new(HT_ERR_REFUSED,
		"the journal in process %d is damaged (%s): nothing was changed; heaptap's code "
		"there only forwards calls",
		proc->pid, what);
}

static bool names_this_image(const struct image *image, const struct journal_header *h)
{
	return h->image == image->base && h->image_bytes == image->bytes &&
	       h->thunks == image->thunks;
}

static bool names_slack(const struct facts *facts, const struct journal_header *h)
{
	if (h->slack_left && h->slack_left != choose_slack_left(&facts->modules, h->slack))
		return false;
	return !h->slack_bytes ||
	       choose_is_slack(&facts->modules, &facts->maps, h->slack, h->slack_bytes);
}

static bool is_slot(const struct facts *facts, const struct journal_slot *entry)
{
	for (size_t i = 0; i < facts->slots.count; i++)
		if (facts->slots.slot[i].addr == entry->addr)
			return (uint32_t)facts->slots.slot[i].hook == entry->hook;
	return false;
}

static bool is_code(const struct facts *facts, raddr_t addr)
{
	const struct module *module = modules_find(&facts->modules, addr);
	return module && addr >= module->text_lo && addr < module->text_hi;
}

/* Reads what the file of the mapping has at `addr`. */
static bool reads_file(
	const struct proc *proc, const struct facts *facts, raddr_t addr, uint64_t *ret)
{
	const struct proc_map *map = proc_maps_find(&facts->maps, addr);
	return map && map->inode && map->hi - addr >= sizeof(*ret) &&
	       memory_read_file(proc, map, map->offset + addr - map->lo, ret, sizeof(*ret)) ==
		       sizeof(*ret);
}

/* Does the entry name code, with the original bytes that its file has? Other bytes must not be
 * written to code. */
static bool is_hooked_code(
	const struct proc *proc, const struct facts *facts, const struct journal_slot *entry)
{
	uint64_t original;
	return entry->code_bytes && entry->code_at + entry->code_bytes <= sizeof(uint64_t) &&
	       entry->addr % sizeof(uint64_t) == 0 && is_code(facts, entry->addr) &&
	       reads_file(proc, facts, entry->addr, &original) && original == entry->original;
}

static bool is_thunk(const struct image *image, uint64_t word)
{
	return word - image->thunks < HT_PAGE_BYTES;
}

static struct ht_err *check_entry(const struct proc *proc, const struct image *image,
	const struct facts *facts, struct journal *journal, uint32_t index)
{
	const struct journal_slot *entry = &journal->slot[index];
	uint64_t now = 0;

	if (is_hooked_code(proc, facts, entry))
		return NULL;
	if (is_slot(facts, entry) && is_thunk(image, entry->thunk) &&
		is_code(facts, entry->original) && !entry->code_bytes)
		return NULL;
	struct ht_err *err = memory_read_u64(proc, entry->addr, &now);
	if (err && err->code != HT_ERR_SYS)
		return err;
	ht_err_free(err);
	if (!err && (now == entry->thunk || entry->code_bytes || is_thunk(image, now)))
		return damaged(proc, "an entry names no address of an allocator function");
	journal_set_state(journal, index, JOURNAL_SLOT_GONE);
	return NULL;
}

struct ht_err *claims_check(
	const struct proc *proc, const struct image *image, struct journal *journal)
{
	const struct journal_header *h = journal->header;
	HT_CLEANUP(facts_deinit) struct facts facts = {0};
	HT_TRY(journal_check(journal));
	given_use(&h->given);
	HT_TRY(facts_read(proc, &facts));
	if (!names_this_image(image, h))
		return damaged(proc, "it belongs to another capture");
	if (!names_slack(&facts, h))
		return damaged(proc, "the place of the attach code is invalid");
	for (uint32_t i = 0; i < h->slot_count; i++)
		HT_TRY(check_entry(proc, image, &facts, journal, i));
	return NULL;
}
