/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables of an ELF file that are not in memory: symbols, relocations, sections by name. The file is
 * hostile, may shrink while it is read, and is never mapped. What is malformed counts as absent.
 */
#pragma once

#include <elf.h>

#include "attach/elf/budget.h"
#include "format/err.h"

/* So much is read of a file that is open once: a sparse one costs its maker nothing. */
#define ELF_FILE_READ_MAX (1ul << 30)

struct elf_file {
	int fd; /* the caller's */
	uint64_t bytes;
	uint64_t left;		 /* bytes that may still be read */
	struct budget *budget;	 /* the caller's, of all files */
	bool partial;		 /* something was asked for that was too much to read */
	const uint8_t *build_id; /* the caller's */
	size_t build_id_bytes;
	Elf64_Shdr *section;
	size_t section_count;
	char *names; /* of sections, NUL-terminated as a whole */
	size_t name_bytes;
};

/* The contents of a section, or the beginning of them. */
struct elf_table {
	uint8_t *data; /* ends with a zero byte that does not count */
	size_t bytes;
};

/* What is no 64-bit ELF file of x86-64, or has another build-id than this (0 bytes: than none), has
 * no sections. What is read is taken off `budget` (NULL: the file's own bound alone). HT_ERR_NOMEM
 * only. */
HT_MUST_CHECK
struct ht_err *elf_file_open(int fd, const uint8_t *build_id, size_t build_id_bytes,
	struct budget *budget, struct elf_file *ret);
void elf_file_close(struct elf_file *file); /* leaves the descriptor */

/* The first section from `from` on that has this type, or that name; NULL: none is left. */
const Elf64_Shdr *elf_file_typed(
	const struct elf_file *file, uint32_t type, const Elf64_Shdr *from);
const Elf64_Shdr *elf_file_named(const struct elf_file *file, const char *name);
/* The section that `section` is linked to; NULL: none. */
const Elf64_Shdr *elf_file_linked(const struct elf_file *file, const Elf64_Shdr *section);

/* Reads a section; empty when it has no bytes in the file, or too many. */
HT_MUST_CHECK
struct ht_err *elf_file_read(
	struct elf_file *file, const Elf64_Shdr *section, struct elf_table *ret);
void elf_table_deinit(struct elf_table *table);

/* The bytes of the file from `offset` on; as many as there are, none when they are too many. */
size_t elf_file_bytes(struct elf_file *file, uint64_t offset, void *ret, size_t bytes);
