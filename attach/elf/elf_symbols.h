/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions and variables of an ELF file by name: from .dynsym, and from .symtab or, for a stripped
 * file, from the separate debug file that the system keeps under its build-id (but not while
 * heaptap avoids slow files: slow_avoid).
 */
#pragma once

#include "attach/elf/elf_file.h"

/* `name` has any length and is valid during the call. */
typedef struct ht_err *elf_symbols_visit(void *context, const Elf64_Sym *symbol, const char *name);

/* Visits each defined function and variable (STT_TLS: thread-local ones) and each undefined symbol
 * (SHN_UNDEF), in no order, some twice. Stops at the first error. Sets `file->partial` if it left
 * out a part of the file or of the debug file. */
HT_MUST_CHECK
struct ht_err *elf_symbols_each(struct elf_file *file, elf_symbols_visit *visit, void *context);
