/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds natives in the symbol tables and relocations of a module's file.
 */
#pragma once

#include "attach/elf/budget.h"
#include "attach/elf/module.h"
#include "attach/memory/proc_map.h"
#include "attach/proc/proc.h"

/* Reads the file behind `map`, the first mapping of `module`. Names of a family with hooks count
 * only where its allocator is plainly present: for the C library's names malloc, calloc, realloc
 * and free; for another allocator a function that allocates, one that frees, and one that no other
 * program has. Finds nothing without a symbol table, a file, or the right to read it, and nothing
 * in the vDSO and the interpreter. Takes reads off `budget`. Free with natives_deinit. */
HT_MUST_CHECK
struct ht_err *natives_read(const struct proc *proc, const struct proc_map *map,
	const struct module *module, struct budget *budget, struct natives *ret);
