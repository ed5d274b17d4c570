/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes and restores slots: one aligned store each (memory_write_u64), the target running.
 *
 * A library may be unloaded, and something else mapped in its place, at any time. So a word is
 * written only when it lies in the same place of the same file as it did, and holds what is
 * expected; and only if this was seen so shortly before the store that we cannot have slept in
 * between. What remains is the time that the kernel takes from its entry to the store.
 */
#pragma once

#include "attach/got/slots.h"
#include "attach/inject/journal.h"
#include "attach/memory/proc_maps.h"

/* A pass over slots. */
struct patch {
	const struct proc *proc;
	struct proc_lookup lookup;
};

HT_MUST_CHECK
struct ht_err *patch_begin(const struct proc *proc, struct patch *ret);
void patch_end(struct patch *patch);

/* Puts `thunk`, which leads to slot->real, into `slot` of `module` if it still holds slot->value
 * there. `ret_done`: false when the word changed meanwhile, or its module is gone. */
HT_MUST_CHECK
struct ht_err *patch_tap(const struct patch *patch, const struct module *module,
	const struct slot *slot, raddr_t thunk, struct journal *journal, bool *ret_done);

/* Where a word comes from. */
struct patch_place {
	uint64_t dev, inode, offset; /* all 0: anonymous memory */
};

struct patch_place patch_place_of(const struct proc_map *map, raddr_t addr);

/* A word of code, aligned, of which `count` bytes from `at` on become those of `after`: a jump to
 * `pad`, with what follows them. */
struct patch_code {
	raddr_t word, pad;
	uint64_t before, after;
	size_t at, count;
	enum abi_hook hook;
	struct patch_place place;
};

/* As patch_tap, for code. */
HT_MUST_CHECK
struct ht_err *patch_code(const struct patch *patch, const struct patch_code *code,
	struct journal *journal, bool *ret_done);

/* Puts `value` into a slot that no journal knows, if it still holds slot->value in its module. */
HT_MUST_CHECK
struct ht_err *patch_replace(const struct patch *patch, const struct module *module,
	const struct slot *slot, uint64_t value);

/* Notes which slots of the journal are gone with their libraries, so that their entries can be used
 * again. Writes nothing to the target. */
void patch_forget_unloaded(const struct patch *patch, struct journal *journal);

struct patch_report {
	size_t tapped;	 /* slots that the journal names, but for the unloaded */
	size_t restored; /* hold their original value again, or what the dynamic linker put there */
	size_t changed;	 /* hold something of the program's own: left alone */
	size_t unloaded; /* gone with their library */
};

/* Restores every slot that still holds our thunk in the mapping that was tapped. Goes on past a
 * failing slot and returns the first error. */
HT_MUST_CHECK
struct ht_err *patch_untap_all(
	const struct proc *proc, struct journal *journal, struct patch_report *ret);
