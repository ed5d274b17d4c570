/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions in the symbol tables of ELF files, by address. An address that no function covers
 * gets no name: the nearest function before it would be a guess.
 */
#pragma once

#include <libelf.h>

#include "format/base.h"
#include "format/err.h"

struct symtab_entry {
	uint64_t from, to; /* `from` first: array_from */
	bool is_sized;	   /* `to` comes from the symbol's size */
	uint8_t rank; /* among several names of one address, that with the highest rank is shown */
	const char *name; /* lives as long as its file */
};

/* Zero-initialised is empty and valid. */
struct symtab {
	struct symtab_entry *entry;
	size_t count, capacity;
};

void symtab_deinit(struct symtab *symtab);
/* Adds the functions of .symtab and .dynsym; leaves out malformed symbols. */
HT_MUST_CHECK
struct ht_err *symtab_add(struct symtab *symtab, Elf *elf);
/* Call once, after the last symtab_add. */
void symtab_sort(struct symtab *symtab);
/* The mangled name of the function that covers `address`; NULL: none. */
const char *symtab_find(const struct symtab *symtab, uint64_t address);
/* Whether the symbols allow a function at [from, to) that covers `address` and is called `name`
 * (NULL: unknown), as DWARF states: no sized symbol covers the address, or a symbol that begins at
 * `from` has no size, the function's size, or its name. Otherwise the linker has dropped the
 * function, and DWARF states addresses from 0 or from the start of its section. */
bool symtab_agrees(const struct symtab *symtab, uint64_t address, uint64_t from, uint64_t to,
	const char *name);
