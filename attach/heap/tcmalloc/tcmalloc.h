/* SPDX-License-Identifier: Apache-2.0
 *
 * What gperftools' tcmalloc holds (2.10): the blocks of all spans that it has handed out, without
 * those that it keeps for threads, and between them.
 */
#pragma once

#include "attach/elf/module.h"
#include "attach/heap/view/account.h"
#include "attach/heap/view/view.h"

/* False: the module has no tcmalloc whose books are known, or one that nobody has used yet. */
HT_MUST_CHECK
struct ht_err *tcmalloc_read(
	struct view *view, const struct module *module, struct heap_account *ret, bool *ret_found);
