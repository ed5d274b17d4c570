/* SPDX-License-Identifier: Apache-2.0
 *
 * What is loaded in the target: every ELF image in its mappings, found by its headers in memory (so
 * that it works without the files, in containers, for musl, dlmopen and static programs alike).
 * Everything read from the target is hostile input.
 */
#pragma once

#include "attach/elf/budget.h"
#include "attach/elf/module.h"
#include "attach/memory/memory.h"
#include "attach/memory/proc_map.h"

/* HT_ERR_REFUSED unless the program is an x86-64 one (not i386, not x32). Ask before anything else.
 */
HT_MUST_CHECK
struct ht_err *modules_check_machine(const struct proc *proc, const struct proc_maps *maps);

/* Finds all modules in `maps`. Images whose headers are malformed are left out. */
HT_MUST_CHECK
struct ht_err *modules_read(
	const struct proc *proc, const struct proc_maps *maps, struct modules *ret);
/*
 * The same after a change of the mappings: modules already in `old` (same lo, dev, inode, build-id)
 * keep their id; new ones get the next numbers.
 */
HT_MUST_CHECK
struct ht_err *modules_reread(const struct proc *proc, const struct proc_maps *maps,
	const struct modules *old, struct modules *ret);

/* A defined function in a module's dynamic symbol table, by name; 0 in ret: not defined there.
 * Indirect functions (STT_GNU_IFUNC) are not resolved: 0. `budget`: as for dynamic_lookup. */
HT_MUST_CHECK
struct ht_err *module_symbol(const struct proc *proc, const struct module *module, const char *name,
	struct budget *budget, raddr_t *ret);
