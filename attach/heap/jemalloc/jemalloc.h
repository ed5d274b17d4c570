/* SPDX-License-Identifier: Apache-2.0
 *
 * What jemalloc (5.1 to 5.3) has handed out: the blocks of all extents without those in the caches
 * of threads. Its own counters are up to date only after a call that updates them.
 */
#pragma once

#include "attach/elf/module.h"
#include "attach/heap/view/account.h"
#include "attach/heap/view/view.h"

/* `*ret_found` is false if the module has no jemalloc with a known map, or an unused one. */
HT_MUST_CHECK
struct ht_err *jemalloc_read(
	struct view *view, const struct module *module, struct heap_account *ret, bool *ret_found);
