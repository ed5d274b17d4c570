/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/capture/tap.h"

#include "attach/elf/modules.h"

/* Where `addr` stands among the `count` words of a table, from now on; 0, which stays free: it is
 * 0, or there is no room. */
static unsigned table_index(uint64_t *table, unsigned count, raddr_t addr)
{
	unsigned i;

	if (!addr)
		return 0;
	for (i = 1; i < count && table[i]; i++)
		if (table[i] == addr)
			return i;
	if (i == count)
		return 0;
	table[i] = addr;
	return i;
}

static unsigned usable_index(struct image *image, raddr_t usable)
{
	return table_index(image_config(image)->usable, ABI_USABLE_MAX, usable);
}

static unsigned plain_index(struct tap *tap, raddr_t plain)
{
	return table_index(
		image_config(tap->image)->plain, ABI_PLAIN_MAX, entries_past(tap->entries, plain));
}

static struct ht_err *refuse_without_plain(enum abi_hook hook, unsigned index)
{
	return abi_is_new(hook) && !index
		       ? ht_err_new(HT_ERR_REFUSED, "the process's allocators have more operators "
						    "new than heaptap has room for")
		       : NULL;
}

/* The only function that frees, tapped already; 0: none, or several. */
static raddr_t sole_free(const struct image *image)
{
	raddr_t found = 0;

	for (size_t i = 0; i < image->thunk_count; i++) {
		if (image->thunk[i].hook != ABI_HOOK_FREE || image->thunk[i].real == found)
			continue;
		if (found)
			return 0;
		found = image->thunk[i].real;
	}
	return found;
}

/* What measures the blocks that the slot's function is given. Where the survey does not know it,
 * because the rest is tapped already, they are those of the allocator which frees them. */
static struct ht_err *usable_of(const struct tap *tap, const struct slot *slot, raddr_t *ret)
{
	const struct survey *survey = tap->survey;
	const struct slots *slots = &survey->slots;

	for (size_t i = 0; i < slots->function_count; i++) {
		if (slots->function[i].hook != slot->hook || slots->function[i].addr != slot->real)
			continue;
		*ret = slots->function[i].usable_size;
		return NULL;
	}
	*ret = 0;
	const struct module *freeing = modules_find(&survey->modules, sole_free(tap->image));
	return freeing ? module_symbol(&survey->proc, freeing, "malloc_usable_size", NULL, ret)
		       : NULL;
}

static struct ht_err *tap_one(struct tap *tap, const struct patch *patch, const struct slot *slot)
{
	const struct survey *survey = tap->survey;
	raddr_t usable = 0, entry;
	bool done;
	const struct module *module = modules_find(&survey->modules, slot->real);
	struct ht_err *err = NULL;
	if (abi_is_allocator(slot->hook))
		err = usable_of(tap, slot, &usable);
	unsigned plain = plain_index(tap, slots_plain(&survey->slots, slot));
	err = ht_err_first(err, refuse_without_plain(slot->hook, plain));
	if (err)
		return err;
	struct image_thunk want = {.hook = slot->hook,
		.real = slot->real,
		.real_lo = module ? module->text_lo : 0,
		.real_len = module ? module->text_hi - module->text_lo : 0,
		.usable_index = usable_index(tap->image, usable),
		.plain_index = plain};
	err = image_thunk(tap->image, &want, &entry);
	if (err)
		return err;
	err = image_enable(tap->image, tap->elf, entry);
	if (err)
		return err;
	err = patch_tap(patch, modules_find(&survey->modules, slot->addr), slot, entry,
		tap->journal, &done);
	tap->tapped += !err && done && !abi_is_guard(slot->hook);
	return err;
}

static struct ht_err *tap_entry(struct tap *tap, const struct patch *patch, struct entry *entry)
{
	const struct bridge *bridge = &entry->bridge;
	raddr_t thunk;
	bool done;
	struct image_thunk want = {.hook = entry->hook,
		.real = entry->at + offsetof(struct abi_bridge, code),
		.real_lo = entry->text_lo,
		.real_len = entry->text_hi - entry->text_lo,
		.usable_index = usable_index(tap->image, entry->usable_size),
		.plain_index = plain_index(tap, entry->plain)};
	struct ht_err *err = refuse_without_plain(entry->hook, want.plain_index);
	if (!err)
		err = image_thunk(tap->image, &want, &thunk);
	if (err)
		return err;
	entries_write_pad(tap->entries, entry, tap->image, thunk);
	err = image_enable(tap->image, tap->elf, thunk);
	if (err)
		return err;
	struct patch_code code = {.word = bridge->word,
		.pad = bridge->pad,
		.before = bridge->before,
		.after = bridge_word(bridge),
		.at = bridge->entry - bridge->word,
		.count = 1,
		.hook = entry->hook,
		.place = entry->file};
	err = patch_code(patch, &code, tap->journal, &done);
	if (!err && !done)
		err = ht_err_new(
			HT_ERR_REFUSED, "the code of %s changed during the attach", entry->name);
	entry->tapped = !err;
	tap->tapped += !err && abi_is_allocator(entry->hook);
	return err;
}

/* Guards, frees, then what frees and allocates, then allocations; what is mapped likewise. */
enum { ROUND_GUARDS, ROUND_FREES, ROUND_BOTH, ROUND_ALLOCATIONS, ROUNDS };

static int tap_order(enum abi_hook hook)
{
	if (abi_is_guard(hook))
		return ROUND_GUARDS;
	if (abi_is_mapping(hook))
		return hook == ABI_MAPPING_MUNMAP   ? ROUND_FREES
		       : hook == ABI_MAPPING_MREMAP ? ROUND_BOTH
						    : ROUND_ALLOCATIONS;
	switch (abi_shape_of(hook)) {
	case ABI_SHAPE_FREE:
		return ROUND_FREES;
	case ABI_SHAPE_REALLOC:
	case ABI_SHAPE_RESIZE:
		return ROUND_BOTH;
	case ABI_SHAPE_ALLOC:
	case ABI_SHAPE_OUT:
		break;
	}
	return ROUND_ALLOCATIONS;
}

/* Goes on past a slot that finds no room. */
static struct ht_err *tap_round(struct tap *tap, const struct patch *patch, int round)
{
	const struct slots *slots = &tap->survey->slots;
	struct ht_err *refused = NULL;

	for (size_t i = 0; i < tap->entries->count; i++) {
		struct entry *entry = &tap->entries->entry[i];
		if (!entry->at || entry->tapped || tap_order(entry->hook) != round)
			continue;
		struct ht_err *err = tap_entry(tap, patch, entry);
		if (err)
			return err;
	}
	for (size_t i = 0; i < slots->count; i++) {
		const struct slot *slot = &slots->slot[i];
		if (!slot->real || tap_order(slot->hook) != round ||
			entries_has(tap->entries, slot->real) ||
			(abi_is_exec(slot->hook) && !tap->follows) ||
			(abi_is_fork(slot->hook) && !tap->follows_forks))
			continue;
		struct ht_err *err = tap_one(tap, patch, slot);
		if (err && err->code != HT_ERR_REFUSED)
			return ht_err_first(err, refused);
		tap->left += err != NULL;
		refused = ht_err_first(refused, err);
	}
	return refused;
}

struct ht_err *tap_slots(struct tap *tap)
{
	struct patch patch;
	struct ht_err *err = patch_begin(&tap->survey->proc, &patch);

	if (err)
		return err;
	tap->left = 0;
	patch_forget_unloaded(&patch, tap->journal);
	for (int round = 0; round < ROUNDS && (!err || err->code == HT_ERR_REFUSED); round++) {
		struct ht_err *more = tap_round(tap, &patch, round);
		if (round == ROUND_GUARDS && (!more || more->code == HT_ERR_REFUSED))
			more = ht_err_first(tap->guarded(tap->context), more);
		err = more && more->code != HT_ERR_REFUSED ? ht_err_first(more, err)
							   : ht_err_first(err, more);
	}
	patch_end(&patch);
	return err;
}
