/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds a loaded module's .eh_frame in the target's memory and returns its table, from the cache or
 * compiled.
 */
#pragma once

#include "attach/elf/modules.h"
#include "attach/unwind/cache.h"

/*
 * Returns the table of `module`, malloc'd, with addresses as offsets from module->bias. A module
 * without a usable .eh_frame_hdr, or, if it has none, without natives.eh_frame, gets FRAME rows
 * only. Reads at most TABLE_EH_FRAME_MAX bytes: .eh_frame is assumed to reach to the end of its
 * segment or of the readable memory. HT_ERR_FORMAT: the module is too large for a table.
 *
 * If `cache` (may be NULL) has the table for exactly the .eh_frame in the target, does not compile
 * it, and sets `*ret_cached`; otherwise stores it there, if .eh_frame has a terminator.
 */
HT_MUST_CHECK
struct ht_err *ehframe_memory_table(const struct proc *proc, const struct module *module,
	struct cache *cache, struct abi_table **ret, bool *ret_cached);
/* As ehframe_memory_table without a cache. */
HT_MUST_CHECK
struct ht_err *ehframe_memory_compile(const struct proc *proc, const struct module *module,
	struct abi_table **ret, struct unwind_stats *ret_stats);
