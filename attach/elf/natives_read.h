/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds natives: reads the symbol tables and relocations of a module's file.
 */
#pragma once

#include "attach/elf/budget.h"
#include "attach/elf/module.h"
#include "attach/memory/proc_map.h"
#include "attach/proc/proc.h"

/*
 * Reads the file behind `map`, the mapping that `module` begins with. Names count only where an
 * allocator is plainly there: of the C library's malloc, calloc, realloc and free; of another
 * something that allocates, something that frees, and what no other program has. Without a symbol
 * table, a file, or the right to read it there are none. What is read is taken off `budget`.
 */
HT_MUST_CHECK
struct ht_err *natives_read(const struct proc *proc, const struct proc_map *map,
	const struct module *module, struct budget *budget, struct natives *ret);
