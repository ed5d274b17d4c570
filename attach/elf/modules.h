/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds every ELF image in the target's mappings by its headers in memory: without the files, in
 * containers, for musl, dlmopen and static programs alike. Everything read from the target is
 * hostile input.
 */
#pragma once

#include "attach/elf/budget.h"
#include "attach/elf/module.h"
#include "attach/memory/memory.h"
#include "attach/memory/proc_map.h"

/* HT_ERR_REFUSED unless the program is an x86-64 one (not i386, not x32). Call it before anything
 * else. */
HT_MUST_CHECK
struct ht_err *modules_check_machine(const struct proc *proc, const struct proc_maps *maps);

/* Finds all modules in `maps`, except images with malformed headers. Free with modules_deinit. */
HT_MUST_CHECK
struct ht_err *modules_read(
	const struct proc *proc, const struct proc_maps *maps, struct modules *ret);
/* As modules_read after a change of the mappings: modules of `old` (same span, device, inode and
 * build-id) keep their id, new ones get the next numbers. */
HT_MUST_CHECK
struct ht_err *modules_reread(const struct proc *proc, const struct proc_maps *maps,
	const struct modules *old, struct modules *ret);

/* `*ret` is the address of the function that the module's dynamic symbol table defines as `name`;
 * 0: not defined, or not STT_FUNC (as an indirect one, STT_GNU_IFUNC). `budget`: as for
 * dynamic_lookup. */
HT_MUST_CHECK
struct ht_err *module_symbol(const struct proc *proc, const struct module *module, const char *name,
	struct budget *budget, raddr_t *ret);
