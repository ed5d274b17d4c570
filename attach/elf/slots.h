/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the target's modules keep the addresses of allocator functions: words that a relocation
 * names (GOT slots: JUMP_SLOT, GLOB_DAT; pointers in data: R_X86_64_64), judged by the value they
 * hold now. The same word holding the application's own function is not ours to tap.
 */
#pragma once

#include "attach/elf/modules.h"
#include "format/abi_hooks.h"

enum slot_verdict {
	SLOT_TAP,	 /* holds a function of that name: the allocator's, or a preloaded shim's */
	SLOT_UNRESOLVED, /* lazy, not bound yet: look again later */
	SLOT_FOREIGN,	 /* named like an allocator but holds something else (an own table, another
			    tool) */
	SLOT_DATA,	 /* not a whole aligned function pointer: points behind one, or is packed */
	SLOT_SKIPPED,	 /* in the dynamic linker or the vDSO */
};

struct slot {
	raddr_t addr;	/* 8-byte aligned, but for SLOT_DATA */
	uint64_t value; /* what it held when read */
	uint64_t module_id;
	uint32_t type; /* R_X86_64_* */
	enum abi_hook hook;
	enum slot_verdict verdict;
	raddr_t real; /* SLOT_TAP: the function to call: `value`, or where that is a canonical PLT
		       * entry of a non-PIE executable, the definition the entry leads to; never
		       * an address that leads through a slot again */
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
	struct allocator_function *function; /* distinct (hook, real) of the SLOT_TAP slots */
	size_t function_count;
};

/*
 * Reads all slots of all modules. `thunk_lo/hi`: addresses of our own thunks, from an earlier tap
 * (0, 0: none); a slot that holds one is left out, and one that leads there by a canonical PLT
 * entry is SLOT_UNRESOLVED: its calls are seen already.
 */
HT_MUST_CHECK
struct ht_err *slots_read(const struct proc *proc, const struct modules *modules, raddr_t thunk_lo,
	raddr_t thunk_hi, struct slots *ret);
void slots_deinit(struct slots *slots);

/*
 * Allocators whose functions are defined in the executable's .symtab or .dynsym and reached by none
 * of its slots: "jemalloc (_rjem_malloc)" and the like, for messages; "" when there are none. To be
 * asked before slots are tapped. Reads the program's file if it is still the same. malloc'd.
 */
HT_MUST_CHECK
struct ht_err *slots_static_allocators(
	const struct proc *proc, const struct modules *modules, char **ret);
