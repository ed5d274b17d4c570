/* SPDX-License-Identifier: Apache-2.0
 *
 * The relocations of a module that name a hooked or guarded function.
 */
#pragma once

#include "attach/allocators/names.h"
#include "attach/elf/dynamic.h"
#include "format/abi_hooks.h"

struct reloc {
	raddr_t addr;  /* of the relocated word: within the module, otherwise unchecked */
	uint32_t type; /* ARCH_RELOC_PLT, ARCH_RELOC_GOT or ARCH_RELOC_WORD */
	enum abi_hook hook;
	uint32_t name;	 /* the name it was found by, below TAP_NAMES_MAX */
	uint32_t symbol; /* in the module's symbol table */
	int64_t addend;
};

struct relocs {
	struct reloc *reloc; /* in the module's order; two may name one word */
	size_t count;
};

/* Each table and each name that it reads costs a part of `budget`; it leaves out what the budget
 * does not cover. Free with relocs_deinit. */
HT_MUST_CHECK
struct ht_err *relocs_read(const struct proc *proc, const struct module *module,
	const struct dynamic *dynamic, struct budget *budget, struct relocs *ret);
void relocs_deinit(struct relocs *relocs);

/* A word that the dynamic linker fills with the address of a symbol; `name`: its index in the list
 * of names. */
struct reloc_word {
	raddr_t addr;
	size_t name;
};

/* Finds up to `max` words of the module with relocations that name one of `names`. */
HT_MUST_CHECK
struct ht_err *relocs_words(const struct proc *proc, const struct module *module,
	const char *const names[], size_t name_count, struct reloc_word *ret, size_t max,
	size_t *ret_count);
