/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions in the symbol tables of ELF files, by address. An address that no function covers
 * has no name: the nearest one before would be a guess.
 */
#pragma once

#include <libelf.h>

#include "format/base.h"
#include "format/err.h"

struct symtab_entry {
	uint64_t from, to;
	bool is_sized;	  /* `to` is the symbol's own */
	uint8_t rank;	  /* of several names for one address the highest is shown */
	const char *name; /* lives as long as its file */
};

/* Zero-initialised is empty and valid. */
struct symtab {
	struct symtab_entry *entry;
	size_t count, capacity;
};

void symtab_deinit(struct symtab *symtab);
/* Adds the functions of .symtab and .dynsym; what is malformed is left out. */
HT_MUST_CHECK
struct ht_err *symtab_add(struct symtab *symtab, Elf *elf);
/* Call once, after the last symtab_add. */
void symtab_sort(struct symtab *symtab);
/* The mangled name of the function that covers `address`; NULL when there is none. */
const char *symtab_find(const struct symtab *symtab, uint64_t address);
/* Whether a function at [from, to), of which DWARF says that it covers `address` and is called
 * `name` (NULL: unknown), may be there: no sized symbol covers the address, or one that begins with
 * the function has its size or name. What else DWARF describes is a function that the linker has
 * dropped: its addresses count from 0, or from the start of its section. */
bool symtab_agrees(const struct symtab *symtab, uint64_t address, uint64_t from, uint64_t to,
	const char *name);
