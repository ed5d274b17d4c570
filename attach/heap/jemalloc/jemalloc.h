/* SPDX-License-Identifier: Apache-2.0
 *
 * What jemalloc's malloc holds (5.1 to 5.3): the blocks of all extents that it has handed out,
 * without those that it caches for threads. Its own counters say the same only when a call has
 * brought them up to date.
 */
#pragma once

#include "attach/elf/module.h"
#include "attach/heap/view/account.h"
#include "attach/heap/view/view.h"

/* False: the module has no jemalloc whose map is known, or one that nobody has used yet. */
HT_MUST_CHECK
struct ht_err *jemalloc_read(
	struct view *view, const struct module *module, struct heap_account *ret, bool *ret_found);
