/* SPDX-License-Identifier: Apache-2.0
 *
 * What mimalloc (2.0.9 to 2.4.1 and 3.x, release builds) has handed out: the blocks of all pages
 * without those that other threads have freed and their own thread has not taken back yet.
 */
#pragma once

#include "attach/elf/module.h"
#include "attach/heap/view/account.h"
#include "attach/heap/view/view.h"

/* `*ret_found` is false if the module has no mimalloc with a known layout, or an unused one. */
HT_MUST_CHECK
struct ht_err *mimalloc_read(
	struct view *view, const struct module *module, struct heap_account *ret, bool *ret_found);
