/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the target's modules keep the addresses of allocator functions: GOT words that a relocation
 * names (JUMP_SLOT, GLOB_DAT; R_X86_64_64 in data is reported, not tapped unless `by value` says it
 * is an allocator's), judged by the value they hold now.
 */
#pragma once

#include "attach/elf/modules.h"
#include "format/abi_hooks.h"

enum slot_verdict {
	SLOT_TAP,	 /* holds an allocator's function: tap it */
	SLOT_UNRESOLVED, /* lazy, not bound yet: look again later */
	SLOT_FOREIGN,	 /* named like an allocator but holds something else (an own table, another
			    tool) */
	SLOT_DATA,	 /* a pointer in program data (R_X86_64_64): not ours to change */
	SLOT_SKIPPED,	 /* in the dynamic linker or the vDSO */
};

struct slot {
	raddr_t addr;	/* 8-byte aligned word */
	uint64_t value; /* what it held when read */
	uint64_t module_id;
	uint32_t type; /* R_X86_64_* */
	enum abi_hook hook;
	enum slot_verdict verdict;
	raddr_t real; /* the function to call: `value`, or behind a canonical PLT entry the
		       * definition that entry leads to */
};

/* A function of an allocator that the target's calls reach. */
struct allocator_function {
	enum abi_hook hook;
	raddr_t addr;
	uint64_t module_id;  /* that holds it */
	raddr_t usable_size; /* malloc_usable_size of the same module; 0: none */
};

struct slots {
	struct slot *slot; /* ascending by addr */
	size_t count;
	struct allocator_function *function; /* distinct `real`s of the SLOT_TAP slots */
	size_t function_count;
};

/* Reads all slots of all modules. `thunk_lo/hi`: addresses of our own thunks, from an earlier tap
 * (0, 0: none); a slot that holds one is left out. */
HT_MUST_CHECK
struct ht_err *slots_read(const struct proc *proc, const struct modules *modules, raddr_t thunk_lo,
	raddr_t thunk_hi, struct slots *ret);
void slots_deinit(struct slots *slots);

/* Functions named like allocators that are defined in the executable's .symtab or .dynsym but
 * reached by no slot: "jemalloc (_rjem_malloc)" and the like, for refusal messages; "" when there
 * are none. Reads the file behind the mapping. malloc'd. */
HT_MUST_CHECK
struct ht_err *slots_static_allocators(
	const struct proc *proc, const struct modules *modules, char **ret);
