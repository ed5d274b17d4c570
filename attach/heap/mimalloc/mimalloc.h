/* SPDX-License-Identifier: Apache-2.0
 *
 * What mimalloc's malloc holds (2.0.9 to 2.4.1, as they are built for use): blocks of all pages
 * of all segments that it has handed out, without those that other threads have freed and their own
 * has not yet taken back.
 */
#pragma once

#include "attach/elf/module.h"
#include "attach/heap/view/account.h"
#include "attach/heap/view/view.h"

/* False: the module has no mimalloc whose heaps are known, or one that nobody has used yet. */
HT_MUST_CHECK
struct ht_err *mimalloc_read(
	struct view *view, const struct module *module, struct heap_account *ret, bool *ret_found);
