/* SPDX-License-Identifier: Apache-2.0
 *
 * A word that a relocation names and that may hold the address of an allocator's function.
 */
#pragma once

#include "format/abi_hooks.h"
#include "format/base.h"

enum slot_verdict {
	SLOT_TAP, /* holds a function of that name: the allocator's, or a preloaded wrapper's */
	SLOT_UNRESOLVED, /* lazy, not bound yet; or a canonical PLT entry behind which no function
			    of that name was found, or a thunk */
	SLOT_EMPTY, /* 0 or not relocated yet: the dynamic linker may be about to write it or to add
		       the load bias. A weak reference without a definition stays 0 */
	SLOT_FOREIGN, /* has an allocator's name but holds something else: the program's own table,
			 another tool, a value the program stored */
	SLOT_DATA, /* not a whole aligned function pointer: points behind a function, or is packed;
		      or a guard's pointer in data */
	SLOT_OURS, /* holds a thunk of heaptap */
	SLOT_SKIPPED, /* in the vDSO, in a dynamic linker that is not the C library, too (musl's
			 is), or in a foreign module (module_is_foreign) */
};

struct slot {
	raddr_t addr;	/* 8-byte aligned, except for SLOT_DATA */
	uint64_t value; /* the contents at the time of the read */
	uint64_t module_id;
	uint32_t type; /* ARCH_RELOC_*; RELATIVE for a native and for the linker's pointer
			  (unlock.h), whatever relocates the word */
	enum abi_hook hook;
	uint32_t name;	 /* the name by which the function is called (names.h) */
	uint32_t symbol; /* index of its relocation's symbol in the symbol table; 0: none */
	enum slot_verdict verdict;
	/* SLOT_TAP: the function to call: `value`, or the definition behind it if `value` is a
	 * canonical PLT entry of a non-PIE executable; never an address that leads through a slot
	 * again. SLOT_UNRESOLVED: what the dynamic linker would bind it to; 0: uncertain, look
	 * again later. 0 for all others. */
	raddr_t real;
};
