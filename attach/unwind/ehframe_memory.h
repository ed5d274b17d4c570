/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds a loaded module's .eh_frame in the target's memory and gives the table of it, compiled or
 * kept.
 */
#pragma once

#include "attach/elf/modules.h"
#include "attach/unwind/cache.h"

/*
 * Table of `module`, malloc'd; its addresses are offsets from module->bias. A module without usable
 * .eh_frame_hdr gets a table of FRAME rows. At most TABLE_EH_FRAME_MAX bytes are read: .eh_frame is
 * taken to reach to the end of its segment or of what is readable. HT_ERR_FORMAT: the module is too
 * large for a table.
 *
 * Where `cache`, which may be NULL, has the table for the very .eh_frame that lies in the target,
 * it is not compiled again; otherwise it is kept there.
 */
HT_MUST_CHECK
struct ht_err *ehframe_memory_table(const struct proc *proc, const struct module *module,
	struct cache *cache, struct abi_table **ret, bool *ret_cached);
/* The same without a cache. */
HT_MUST_CHECK
struct ht_err *ehframe_memory_compile(const struct proc *proc, const struct module *module,
	struct abi_table **ret, struct unwind_stats *ret_stats);
