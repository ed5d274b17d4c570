/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the data structures of one allocator: finds them among a module's variables, then adds up
 * what the allocator has handed out.
 */
#pragma once

#include "attach/elf/module.h"
#include "attach/heap/view/account.h"
#include "attach/heap/view/view.h"

struct reader {
	const char *allocator;
	const char *several; /* the reason if find has several candidates */
	size_t found_bytes;
	/* Fills `found`, `found_bytes` zeroed bytes. `*ret_count`: the number of candidates; 0: the
	 * module has no allocator with a known layout, or an unused one. */
	struct ht_err *(*find)(
		struct view *view, const struct module *module, void *found, size_t *ret_count);
	/* Only for one candidate. Sets everything in `ret` but the name. */
	struct ht_err *(*read)(struct view *view, void *found, struct heap_account *ret);
	void (*deinit)(void *found); /* NULL: nothing to free */
};

/* Finds one allocator in the module, with at most a quarter of the budget, and reads it.
 * `*ret_found` is false if there is no candidate. Several candidates give an unknown account. */
HT_MUST_CHECK
struct ht_err *reader_read(const struct reader *reader, struct view *view,
	const struct module *module, struct heap_account *ret, bool *ret_found);
