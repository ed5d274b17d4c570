/* SPDX-License-Identifier: Apache-2.0
 *
 * A word that a relocation names, and that may hold an address of an allocator's function.
 */
#pragma once

#include "format/abi_hooks.h"
#include "format/base.h"

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
