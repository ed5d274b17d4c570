/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes and restores slots: one aligned store each (memory_write_u64), while the target runs.
 *
 * A library may be unloaded, and something else mapped in its place, at any time. So a word is
 * written only if it is in the same place of the same file as before, and holds the expected value;
 * and only if both were seen so shortly before the store that heaptap cannot have been preempted in
 * between. The time that remains is the kernel's, from the system call's entry to the store.
 */
#pragma once

#include "attach/got/slots.h"
#include "attach/inject/journal.h"
#include "attach/memory/proc_maps.h"

/* One pass over slots. */
struct patch {
	const struct proc *proc;
	struct proc_lookup lookup;
};

/* End with patch_end, unless it fails. HT_ERR_TARGET_GONE if the process has ended or exec'd. */
HT_MUST_CHECK
struct ht_err *patch_begin(const struct proc *proc, struct patch *ret);
void patch_end(struct patch *patch);

/* Stores `thunk`, which forwards to slot->real, in `slot` of `module`, if the slot still holds
 * slot->value. `ret_done`: false if the word has changed, or the module is gone. */
HT_MUST_CHECK
struct ht_err *patch_tap(const struct patch *patch, const struct module *module,
	const struct slot *slot, raddr_t thunk, struct journal *journal, bool *ret_done);

/* The file position that a word is mapped from. */
struct patch_place {
	uint64_t dev, inode, offset; /* all 0: anonymous memory */
};

struct patch_place patch_place_of(const struct proc_map *map, raddr_t addr);

/* An aligned word of code. `count` of its bytes, from `at` on, become those of `after`: a jump to
 * `pad`, and the bytes that follow it. */
struct patch_code {
	raddr_t word, pad;
	uint64_t before, after;
	size_t at, count;
	enum abi_hook hook;
	struct patch_place place;
};

/* As patch_tap, for code: writes the word if it still holds code->before at code->place. */
HT_MUST_CHECK
struct ht_err *patch_code(const struct patch *patch, const struct patch_code *code,
	struct journal *journal, bool *ret_done);

/* Stores `value` in a slot that no journal has, if the slot still holds slot->value in its
 * module. */
HT_MUST_CHECK
struct ht_err *patch_replace(const struct patch *patch, const struct module *module,
	const struct slot *slot, uint64_t value);

/* Marks journal entries whose library was unloaded, so that the entries can be reused. Writes
 * nothing to the target. */
void patch_forget_unloaded(const struct patch *patch, struct journal *journal);

struct patch_report {
	size_t tapped;	 /* entries in the journal, of slots and of code, without unloaded ones */
	size_t restored; /* hold their original value, or what the linker stored */
	size_t changed;	 /* slots that hold something of the program's: left alone */
	size_t unloaded; /* slots that are gone with their library */
};

/* Restores every slot that still holds heaptap's thunk in the mapping in which it was hooked, and
 * all code that still has heaptap's jump. Goes on after a failure and returns the first error;
 * HT_ERR_INCOMPLETE if another tool has changed such code. */
HT_MUST_CHECK
struct ht_err *patch_untap_all(
	const struct proc *proc, struct journal *journal, struct patch_report *ret);
