/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables of an ELF file on disk: symbols, relocations, sections by name. The file is hostile, may
 * shrink during the read, and is never mapped. Malformed parts count as absent.
 */
#pragma once

#include <elf.h>

#include "attach/elf/budget.h"
#include "format/err.h"

/* Maximum read of one open file: a sparse file costs its maker nothing. */
#define ELF_FILE_READ_MAX (1ul << 30)

struct elf_file {
	int fd; /* the caller's */
	uint64_t bytes;
	uint64_t left;		 /* bytes that may still be read */
	struct budget *budget;	 /* the caller's, for all files */
	bool partial;		 /* a part was left out because it was too large */
	const uint8_t *build_id; /* the caller's */
	size_t build_id_bytes;
	Elf64_Shdr *section;
	size_t section_count;
	char *names; /* names of the sections, with a NUL at the very end */
	size_t name_bytes;
};

/* The contents of a section, or their beginning. */
struct elf_table {
	uint8_t *data; /* followed by a zero byte that does not count */
	size_t bytes;
};

/* Opens the file behind `fd`. `*ret` has no sections if the file is not a 64-bit ELF file of
 * x86-64, or has another build-id (`build_id_bytes` 0: has any build-id). Takes reads off `budget`
 * (NULL: only the file's own limit). HT_ERR_NOMEM only. */
HT_MUST_CHECK
struct ht_err *elf_file_open(int fd, const uint8_t *build_id, size_t build_id_bytes,
	struct budget *budget, struct elf_file *ret);
void elf_file_close(struct elf_file *file); /* leaves the descriptor open */

/* The first section from `from` on with that type; the section with that name. NULL: none. */
const Elf64_Shdr *elf_file_typed(
	const struct elf_file *file, uint32_t type, const Elf64_Shdr *from);
const Elf64_Shdr *elf_file_named(const struct elf_file *file, const char *name);
/* The section that `section` is linked to; NULL: none. */
const Elf64_Shdr *elf_file_linked(const struct elf_file *file, const Elf64_Shdr *section);

/* Reads a section; free with elf_table_deinit. `ret` is empty if the section has no bytes in the
 * file, or too many (then sets `file->partial`). */
HT_MUST_CHECK
struct ht_err *elf_file_read(
	struct elf_file *file, const Elf64_Shdr *section, struct elf_table *ret);
void elf_table_deinit(struct elf_table *table);

/* Finds the GNU build-id among the notes in `data`, whose parts are aligned to `align` bytes; NULL:
 * none. */
const uint8_t *elf_build_id(const uint8_t *data, size_t bytes, size_t align, size_t *ret_bytes);

/* Reads up to `bytes` bytes at `offset`. Returns the number read; 0, and sets `file->partial`, if
 * the limits do not allow `bytes` more. */
size_t elf_file_bytes(struct elf_file *file, uint64_t offset, void *ret, size_t bytes);
