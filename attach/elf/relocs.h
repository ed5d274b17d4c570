/* SPDX-License-Identifier: Apache-2.0
 *
 * The relocations of a module that name a hooked function, or one that is guarded.
 */
#pragma once

#include "attach/elf/dynamic.h"
#include "format/abi_hooks.h"

struct reloc {
	raddr_t addr;  /* of the relocated word: within the module, otherwise unchecked */
	uint32_t type; /* R_X86_64_JUMP_SLOT, R_X86_64_GLOB_DAT or R_X86_64_64 */
	enum abi_hook hook;
	int64_t addend;
};

struct relocs {
	struct reloc *reloc; /* in the module's order; may name a word twice */
	size_t count;
};

/* The name of a hooked function, as symbol tables have it. */
const char *hook_name(enum abi_hook hook);

/* Tables and names that are read are taken off `budget`; what it does not suffice for is left out.
 */
HT_MUST_CHECK
struct ht_err *relocs_read(const struct proc *proc, const struct module *module,
	const struct dynamic *dynamic, struct budget *budget, struct relocs *ret);
void relocs_deinit(struct relocs *relocs);
