/* SPDX-License-Identifier: Apache-2.0
 *
 * What glibc's malloc holds: of each arena what it has from the system without what is free in it,
 * without what threads have cached, and blocks with a mapping of their own.
 */
#pragma once

#include "attach/heap/heap.h"
#include "attach/heap/view.h"

/* False: the module has no arena, or one that nobody has used yet. */
HT_MUST_CHECK
struct ht_err *glibc_read(
	struct view *view, const struct module *module, struct heap_account *ret, bool *ret_found);
