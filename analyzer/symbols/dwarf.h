/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions, inlined functions and lines of an address, from DWARF. Compilation units are found by
 * their ranges, their functions are indexed when an address falls into one for the first time: ten
 * times faster than asking libdw for the scopes of each address, and independent of .debug_aranges,
 * which clang does not write.
 */
#pragma once

#include "analyzer/model/strings.h"
#include "analyzer/symbols/elf_file.h"
#include "analyzer/symbols/symtab.h"

struct dwarf;

/* Debug information that exists but was not read. */
struct dwarf_note {
	enum rec_names_state state; /* REC_NAMES_WHOLE: nothing was left unread */
	char detail[TRACE_STRING_MAX + 1];
};

/* Reads the units of `file`, and later the files to which it refers. Borrows all arguments. `*ret`
 * is NULL, and `note` says why, if libdw cannot read the DWARF or its alternate file is not found.
 * `path`: the file's path in the target, even if it no longer exists. */
HT_MUST_CHECK
struct ht_err *dwarf_create(const struct elf_file *file, const struct finder *finder,
	const char *path, struct dwarf_note *note, struct dwarf **ret);
void dwarf_destroy(struct dwarf *dwarf);
/* Frames of `address`, innermost first; names are interned in `strings`. A function that
 * contradicts `symtab` (symtab_agrees) is left out. A frame whose function is unknown has an empty
 * name. `*ret_count` is at most TRACE_INLINE_MAX; 0: nothing is known. */
HT_MUST_CHECK
struct ht_err *dwarf_frames(struct dwarf *dwarf, const struct symtab *symtab,
	struct strings *strings, uint64_t address, struct rec_frame *ret, uint64_t *ret_count);
