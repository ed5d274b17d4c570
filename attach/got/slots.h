/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the target's modules keep the addresses of allocator functions: words that a relocation
 * names (GOT slots: JUMP_SLOT, GLOB_DAT; pointers in data: ARCH_RELOC_WORD) or that lead to a
 * function within their own module (natives: ARCH_RELOC_RELATIVE), judged by the value they hold
 * now. The same word holding the application's own function is not ours to tap.
 */
#pragma once

#include "attach/elf/module.h"
#include "attach/got/slot.h"
#include "attach/proc/proc.h"

/* A function of an allocator that the target's calls reach. */
struct allocator_function {
	enum abi_hook hook;
	uint32_t name; /* that a slot has for it (relocs.h) */
	raddr_t addr;
	uint64_t module_id;  /* that holds it */
	raddr_t usable_size; /* malloc_usable_size of the same module; 0: none */
	raddr_t plain;	     /* of ABI_NEWS: what is called in its place */
	bool named;	     /* a slot leads to it by its name */
};

struct slots {
	struct slot *slot; /* ascending by addr */
	size_t count;
	struct allocator_function *function; /* distinct (hook, real) of the slots */
	size_t function_count;
	uint64_t partial_id; /* a module that has more than is looked at; 0: none */
};

/*
 * Reads all slots of all modules. `thunk_lo/hi`: addresses of our own thunks, from an earlier tap
 * (0, 0: none); one that leads there by a canonical PLT entry is SLOT_UNRESOLVED: its calls are
 * seen already.
 */
HT_MUST_CHECK
struct ht_err *slots_read(const struct proc *proc, const struct modules *modules, raddr_t thunk_lo,
	raddr_t thunk_hi, struct slots *ret);
/* The same, and those of functions that map memory (ABI_MAPPINGS). */
HT_MUST_CHECK
struct ht_err *slots_read_all(const struct proc *proc, const struct modules *modules,
	raddr_t thunk_lo, raddr_t thunk_hi, struct slots *ret);
/* Those that an earlier tap, of which nothing else is known, may have written. */
HT_MUST_CHECK
struct ht_err *slots_read_left(
	const struct proc *proc, const struct modules *modules, struct slots *ret);
void slots_deinit(struct slots *slots);
/* What is called in the place of the slot's function, one of ABI_NEWS; 0: none. */
raddr_t slots_plain(const struct slots *slots, const struct slot *slot);

/* Are operators new and delete among them? Only those of an allocator that is known have slots, any
 * other's call malloc, or are not seen (cxxops.h). */
bool slots_have_operators(const struct slots *slots);

/* Is `value` where an unbound lazy slot leads: to code that has the dynamic linker bind it? */
HT_MUST_CHECK
struct ht_err *slots_is_lazy(const struct proc *proc, raddr_t value, bool *ret);
