/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the words in which the target's modules keep addresses of allocator functions: words with a
 * relocation that names the function (GOT slots: JUMP_SLOT, GLOB_DAT; pointers in data:
 * ARCH_RELOC_WORD), words that lead to a native (ARCH_RELOC_RELATIVE), and the dynamic linker's
 * pointer of unlock.h. Judges each by its current value: if it holds a function of the application,
 * heaptap leaves it alone.
 */
#pragma once

#include "attach/elf/module.h"
#include "attach/got/slot.h"
#include "attach/proc/proc.h"

/* A function of an allocator that the target's calls reach. */
struct allocator_function {
	enum abi_hook hook;
	uint32_t name; /* the name that a slot has for it (names.h) */
	raddr_t addr;
	uint64_t module_id;  /* of the module that contains it */
	raddr_t usable_size; /* malloc_usable_size of the same module; 0: none */
	raddr_t plain;	     /* for a function of ABI_NEWS: what the hook calls instead */
	bool named; /* some slot leads to it by a relocation with its name, which has no allocator's
		       prefix */
};

struct slots {
	struct slot *slot; /* ascending by addr */
	size_t count;
	struct allocator_function *function; /* distinct pairs (hook, real) of the slots */
	size_t function_count;
	uint64_t partial_id; /* a module that has more than heaptap reads; 0: none */
};

/* Reads all slots of all modules; those of functions that map memory (ABI_MAPPINGS) only if
 * `with_mappings`. `thunk_lo`, `thunk_hi`: range of heaptap's thunks; 0, 0: none. A slot that leads
 * to a thunk through a canonical PLT entry is SLOT_UNRESOLVED: its calls are seen already. Free
 * with slots_deinit. */
HT_MUST_CHECK
struct ht_err *slots_read(const struct proc *proc, const struct modules *modules, raddr_t thunk_lo,
	raddr_t thunk_hi, bool with_mappings, struct slots *ret);
/* Reads the slots that an earlier, unknown capture may have changed. */
HT_MUST_CHECK
struct ht_err *slots_read_left(
	const struct proc *proc, const struct modules *modules, struct slots *ret);
void slots_deinit(struct slots *slots);
/* The function that the slot leads to; NULL: unknown. */
const struct allocator_function *slots_function(const struct slots *slots, const struct slot *slot);

/* Are there slots of operators new and delete? Only operators of a known allocator have slots;
 * others call malloc, or are not seen (cxxops.h). */
bool slots_have_operators(const struct slots *slots);

/* Does `value` lead to the code of an unbound lazy slot, which makes the dynamic linker bind it? */
HT_MUST_CHECK
struct ht_err *slots_is_lazy(const struct proc *proc, raddr_t value, bool *ret);
