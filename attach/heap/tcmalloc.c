/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/heap/tcmalloc.h"

#include <string.h>

#include "attach/heap/account.h"
#include "attach/heap/tcbooks.h"

#define READINGS_MAX 16u /* each is some dozens of looks */
#define FIND_SHARE   4u	 /* of the budget */

/* Until two in a row find the same. */
static void read_books(struct view *view, const struct tcbooks *books, struct heap_account *ret)
{
	struct tcbooks_sum sum[2];
	memset(sum, 0, sizeof(sum));
	const struct tcbooks_sum *last = NULL;
	uint64_t moved_bytes = UINT64_MAX;
	for (unsigned i = 0; i < READINGS_MAX && moved_bytes && !view->spent; i++) {
		struct tcbooks_sum *now = &sum[i % 2], *before = &sum[(i + 1) % 2];
		tcbooks_read(view, books, now);
		if (!now->valid)
			view_refresh(view);
		moved_bytes = now->valid && before->valid ? tcbooks_moved_bytes(books, before, now)
							  : UINT64_MAX;
		last = now->valid ? now : NULL;
	}
	if (!last || moved_bytes == UINT64_MAX) {
		account_explain(ret, view->swapped ? "part of its books is swapped out"
						   : "its books do not add up");
		return;
	}
	ret->known = true;
	ret->held_bytes = last->held_bytes;
	ret->system_bytes = last->system_bytes;
	ret->off_bytes = moved_bytes;
	ret->arenas = last->caches;
	if (!books->cache) {
		ret->off_bytes = last->held_bytes;
		account_explain(ret, "what its threads have cached was not found");
	}
	if (moved_bytes)
		account_explain(ret, "it was in use while it was read");
}

struct ht_err *tcmalloc_read(
	struct view *view, const struct module *module, struct heap_account *ret, bool *ret_found)
{
	struct tcbooks books;
	size_t count;
	uint64_t kept = view->left - view->left / FIND_SHARE;
	*ret = (struct heap_account){.allocator = "tcmalloc"};
	view->left -= kept;
	struct ht_err *err = tcbooks_find(view, module, &books, &count);
	view->left += kept;
	view->spent = false;
	*ret_found = !err && count != 0;
	if (!*ret_found)
		return err;
	if (count > 1)
		account_explain(ret, "more than one place looks like its books");
	else
		read_books(view, &books, ret);
	view->spent = false;
	return NULL;
}
