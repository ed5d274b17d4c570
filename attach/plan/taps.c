/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/plan/taps.h"

#include <stdlib.h>

static enum taps_turn turn_of(enum abi_hook hook)
{
	if (abi_is_guard(hook))
		return TAPS_GUARDS;
	if (abi_is_mapping(hook))
		return hook == ABI_MAPPING_MUNMAP   ? TAPS_FREES
		       : hook == ABI_MAPPING_MREMAP ? TAPS_BOTH
						    : TAPS_ALLOCATIONS;
	switch (abi_shape_of(hook)) {
	case ABI_SHAPE_FREE:
		return TAPS_FREES;
	case ABI_SHAPE_REALLOC:
	case ABI_SHAPE_RESIZE:
		return TAPS_BOTH;
	case ABI_SHAPE_ALLOC:
	case ABI_SHAPE_OUT:
		break;
	}
	return TAPS_ALLOCATIONS;
}

static struct taps_row entry_row(const struct entries *entries, struct entry *entry)
{
	return (struct taps_row){.entry = entry,
		.turn = turn_of(entry->hook),
		.why = !entry->at      ? TAPS_REFUSED
		       : entry->tapped ? TAPS_DONE
				       : TAPS_WANTED,
		.thunk = {.hook = entry->hook,
			.real = entry->at + offsetof(struct abi_bridge, code),
			.real_lo = entry->text_lo,
			.real_len = entry->text_hi - entry->text_lo,
			.usable = entry->usable_size,
			.plain = entries_past(entries, entry->plain)}};
}

static enum taps_why why_of(
	const struct entries *entries, struct taps_follow follow, const struct slot *slot)
{
	if (!slot->real)
		return TAPS_NO_FUNCTION;
	if (entries_has(entries, slot->real))
		return TAPS_AT_ENTRY;
	if ((abi_is_exec(slot->hook) && !follow.execs) ||
		(abi_is_fork(slot->hook) && !follow.forks))
		return TAPS_NOT_FOLLOWED;
	return TAPS_WANTED;
}

static struct image_thunk thunk_of(
	const struct survey *survey, const struct entries *entries, const struct slot *slot)
{
	const struct module *holder = modules_find(&survey->modules, slot->real);
	const struct allocator_function *function = slots_function(&survey->slots, slot);
	raddr_t plain = function && abi_is_new(slot->hook) ? function->plain : 0;
	return (struct image_thunk){.hook = slot->hook,
		.real = slot->real,
		.real_lo = holder ? holder->text_lo : 0,
		.real_len = holder ? holder->text_hi - holder->text_lo : 0,
		.usable = function && abi_is_allocator(slot->hook) ? function->usable_size : 0,
		.plain = entries_past(entries, plain)};
}

static struct taps_row slot_row(const struct survey *survey, const struct entries *entries,
	struct taps_follow follow, const struct slot *slot)
{
	struct taps_row row = {.slot = slot,
		.module = modules_find(&survey->modules, slot->addr),
		.turn = turn_of(slot->hook),
		.why = why_of(entries, follow, slot)};
	if (row.why == TAPS_WANTED)
		row.thunk = thunk_of(survey, entries, slot);
	return row;
}

struct ht_err *taps_plan(const struct survey *survey, const struct entries *entries,
	struct taps_follow follow, struct taps *ret)
{
	const struct slots *slots = &survey->slots;
	*ret = (struct taps){.row = calloc(entries->count + slots->count + 1, sizeof(*ret->row))};
	if (!ret->row)
		return ht_err_new(HT_ERR_NOMEM, "no memory for the table of %zu addresses",
			entries->count + slots->count);
	for (size_t i = 0; i < entries->count; i++)
		ret->row[ret->count++] = entry_row(entries, &entries->entry[i]);
	for (size_t i = 0; i < slots->count; i++)
		ret->row[ret->count++] = slot_row(survey, entries, follow, &slots->slot[i]);
	return NULL;
}

void taps_deinit(struct taps *taps)
{
	free(taps->row);
	*taps = (struct taps){0};
}

const char *taps_words(const struct taps_row *row)
{
	static const char *const words[] = {
		[SLOT_TAP] = "tap",
		[SLOT_UNRESOLVED] = "tap (not bound yet)",
		[SLOT_EMPTY] = "leave: empty",
		[SLOT_FOREIGN] = "leave: holds something else",
		[SLOT_DATA] = "leave: program data",
		[SLOT_OURS] = "tapped",
		[SLOT_SKIPPED] = "leave: dynamic linker",
	};
	return words[row->slot->verdict];
}
