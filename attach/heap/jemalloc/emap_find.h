/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds jemalloc's map of its extents.
 */
#pragma once

#include "attach/elf/module.h"
#include "attach/heap/jemalloc/emap.h"

/* Searches the module's variables. `*ret_count`: the number of maps found. */
HT_MUST_CHECK
struct ht_err *emap_find(
	struct view *view, const struct module *module, struct emap *ret, size_t *ret_count);
