/* SPDX-License-Identifier: Apache-2.0
 *
 * A small library as the loader would leave it in memory, made in the test's own address space from
 * symbols and relocations, with every table open to corruption:
 *
 *      page 0  ELF and program headers, build-id note        r--
 *      page 1  .dynsym .dynstr .hash .rela.dyn .rela.plt     r--
 *      page 2  text                                          r-x
 *      page 3  dynamic section and GOT                       rw-
 */
#pragma once

#include <elf.h>

#include "format/base.h"

enum {
	ELFWRITER_PAGES = 4,
	ELFWRITER_BYTES = ELFWRITER_PAGES * 4096,
	ELFWRITER_PHDRS = 6,
	ELFWRITER_SYMBOLS = 32,
	ELFWRITER_RELOCS = 32,
	ELFWRITER_BUILD_ID_BYTES = 20,
};

struct elfwriter {
	uint8_t *image; /* the four pages, all writable until elfwriter_protect */
	Elf64_Ehdr *ehdr;
	Elf64_Phdr *phdr; /* 0-2 PT_LOAD, 3 PT_DYNAMIC, 4 PT_NOTE, 5 PT_GNU_EH_FRAME */
	Elf64_Sym *symbol;
	char *strings;
	uint32_t *hash; /* DT_HASH with one bucket */
	Elf64_Rela *rela, *plt_rela;
	uint8_t *text;
	Elf64_Dyn *dynamic;
	uint64_t *got;
	uint32_t symbol_count, rela_count, plt_rela_count;
	size_t string_bytes, got_count;
};

/* Maps an image without symbols. */
void elfwriter_init(struct elfwriter *writer);
/* Adds a symbol: a function at text + `text_offset`, or an undefined one. Returns its index. */
uint32_t elfwriter_function(struct elfwriter *writer, const char *name, size_t text_offset);
uint32_t elfwriter_undefined(struct elfwriter *writer, const char *name);
/* Adds a GOT word with `value` and its relocation (JUMP_SLOT ones go to .rela.plt). */
uint64_t *elfwriter_slot(struct elfwriter *writer, uint32_t type, uint32_t symbol, uint64_t value);
/* Writes the counts and table sizes into the image, and gives the pages the protection of the table
 * above. */
void elfwriter_protect(struct elfwriter *writer);
/* Makes all pages writable again, to corrupt something. */
void elfwriter_open(struct elfwriter *writer);
/* The entry of the dynamic section with this tag. */
Elf64_Dyn *elfwriter_dynamic(struct elfwriter *writer, Elf64_Sxword tag);
void elfwriter_deinit(struct elfwriter *writer);
