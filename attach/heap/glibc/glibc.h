/* SPDX-License-Identifier: Apache-2.0
 *
 * What glibc's malloc holds: of each arena what it has from the system without what is free in it,
 * without what threads have cached, and blocks with a mapping of their own.
 */
#pragma once

#include "attach/elf/module.h"
#include "attach/heap/view/account.h"
#include "attach/heap/view/view.h"

/* False: the module has no arena that is known. An account without arenas: malloc was not called
 * yet. */
HT_MUST_CHECK
struct ht_err *glibc_read(
	struct view *view, const struct module *module, struct heap_account *ret, bool *ret_found);
