/* SPDX-License-Identifier: Apache-2.0
 *
 * What gperftools' tcmalloc (2.10) has handed out: the blocks of all spans without those in the
 * caches of threads and in the lists between them.
 */
#pragma once

#include "attach/elf/module.h"
#include "attach/heap/view/account.h"
#include "attach/heap/view/view.h"

/* `*ret_found` is false if the module has no tcmalloc with a known layout, or an unused one. */
HT_MUST_CHECK
struct ht_err *tcmalloc_read(
	struct view *view, const struct module *module, struct heap_account *ret, bool *ret_found);
