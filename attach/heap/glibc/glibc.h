/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads how much glibc's malloc has handed out: the memory of each arena without its free chunks
 * and the caches of threads, and blocks with a mapping of their own.
 */
#pragma once

#include "attach/elf/module.h"
#include "attach/heap/view/account.h"
#include "attach/heap/view/view.h"

/* `*ret_found` is false if the module has no known arena. An account with 0 arenas that is known:
 * malloc was not called yet. */
HT_MUST_CHECK
struct ht_err *glibc_read(
	struct view *view, const struct module *module, struct heap_account *ret, bool *ret_found);
