/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the target's modules keep the addresses of allocator functions: words that a relocation
 * names (GOT slots: JUMP_SLOT, GLOB_DAT; pointers in data: ARCH_RELOC_WORD) or that lead to a
 * function within their own module (natives: ARCH_RELOC_RELATIVE), judged by the value they hold
 * now. The same word holding the application's own function is not ours to tap.
 */
#pragma once

#include "attach/elf/modules.h"
#include "format/abi_hooks.h"

enum slot_verdict {
	SLOT_TAP,	 /* holds a function of that name: the allocator's, or a preloaded shim's */
	SLOT_UNRESOLVED, /* lazy, not bound yet */
	SLOT_EMPTY,	 /* 0, or not relocated yet: the dynamic linker may be about to write it, or
			    to add the load bias to it; a weak reference to nothing stays 0 */
	SLOT_FOREIGN,	 /* named like an allocator but holds something else (an own table, another
			    tool, what the program itself stored there) */
	SLOT_DATA,	 /* not a whole aligned function pointer: points behind one, or is packed;
			  * a guard's pointer in data */
	SLOT_OURS,	 /* holds a thunk of ours */
	SLOT_SKIPPED,	 /* in the dynamic linker or the vDSO */
};

struct slot {
	raddr_t addr;	/* 8-byte aligned, but for SLOT_DATA */
	uint64_t value; /* what it held when read */
	uint64_t module_id;
	uint32_t type; /* ARCH_RELOC_*; RELATIVE: of a native, however its word is relocated */
	enum abi_hook hook;
	uint32_t name;	 /* of the function that it is called by (relocs.h) */
	uint32_t symbol; /* that its relocation refers to, in the module's symbol table; 0: none */
	enum slot_verdict verdict;
	/* SLOT_TAP: the function to call: `value`, or where that is a canonical PLT entry of a
	 * non-PIE executable, the definition the entry leads to; never an address that leads
	 * through a slot again. SLOT_UNRESOLVED: what it would be bound to; 0: not certain, look
	 * again later. */
	raddr_t real;
};

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
