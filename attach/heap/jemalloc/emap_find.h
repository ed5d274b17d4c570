/* SPDX-License-Identifier: Apache-2.0
 *
 * Where jemalloc's map of all that it has is.
 */
#pragma once

#include "attach/elf/module.h"
#include "attach/heap/jemalloc/emap.h"

/* Among the module's variables; `*ret_count` gets how many there are. */
HT_MUST_CHECK
struct ht_err *emap_find(
	struct view *view, const struct module *module, struct emap *ret, size_t *ret_count);
