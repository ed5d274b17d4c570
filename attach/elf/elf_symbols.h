/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions and variables that an ELF file names: in .dynsym and .symtab, or where the file was
 * stripped, in the separate debug file that the system keeps under its build-id (not after
 * slow_avoid).
 */
#pragma once

#include "attach/elf/elf_file.h"

/* `name` is of any length, and lives for this call. */
typedef struct ht_err *elf_symbols_visit(void *context, const Elf64_Sym *symbol, const char *name);

/* Visits each function and variable (STT_TLS: of each thread) that is defined there, and each
 * symbol that is not (SHN_UNDEF), in no order, some twice. Stops at the first error. What is not
 * read of the debug file makes `file` partial. */
HT_MUST_CHECK
struct ht_err *elf_symbols_each(struct elf_file *file, elf_symbols_visit *visit, void *context);
