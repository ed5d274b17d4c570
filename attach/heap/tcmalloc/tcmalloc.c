/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/heap/tcmalloc/tcmalloc.h"

#include "attach/heap/tcmalloc/tcbooks.h"
#include "attach/heap/view/account.h"

#define READINGS_MAX 16u /* each is some dozens of looks */
#define FIND_SHARE   4u	 /* of the budget */
#define FINDS_MAX    32u /* with the pauses between them 160 ms, a sixth of what a reading has */

struct reading {
	struct tcbooks_sum sum;
	uint64_t moved_bytes; /* since the reading before it; UINT64_MAX: there was none */
};

/* Until one finds what the one before it found; else the one that differs least from it. What does
 * not add up, as it was changed just then, is none. */
static void take_readings(struct view *view, const struct tcbooks *books, struct reading *ret)
{
	struct tcbooks_sum before = {0};
	*ret = (struct reading){.moved_bytes = UINT64_MAX};
	for (unsigned i = 0; i < READINGS_MAX && ret->moved_bytes && !view->spent; i++) {
		struct tcbooks_sum now;
		tcbooks_read(view, books, &now);
		if (!now.valid) {
			view_pause(view);
			continue;
		}
		uint64_t moved =
			before.valid ? tcbooks_moved_bytes(books, &before, &now) : UINT64_MAX;
		if (moved < ret->moved_bytes)
			*ret = (struct reading){now, moved};
		before = now;
	}
}

static void read_books(struct view *view, const struct tcbooks *books, struct heap_account *ret)
{
	struct reading reading;
	take_readings(view, books, &reading);
	if (reading.moved_bytes == UINT64_MAX) {
		account_explain(ret, view->swapped ? "part of its data structures is swapped out"
						   : "its data structures do not add up");
		return;
	}
	ret->known = true;
	ret->held_bytes = reading.sum.held_bytes;
	ret->system_bytes = reading.sum.system_bytes;
	ret->off_bytes = reading.moved_bytes;
	account_value(ret, MEMORY_TCMALLOC_USED, ret->held_bytes);
	account_value(ret, MEMORY_TCMALLOC_SYSTEM, ret->system_bytes);
	ret->arenas = reading.sum.caches;
	if (!books->cache) {
		ret->off_bytes = reading.sum.held_bytes;
		account_explain(ret, "the caches of its threads were not found");
	}
	if (reading.moved_bytes)
		account_explain(ret, "it was in use while it was read");
}

/* The table of sizes is constant; lists are torn while a thread works on one of them. */
static struct ht_err *find(
	struct view *view, const struct module *module, struct tcbooks *ret, size_t *ret_count)
{
	for (unsigned i = 1;; i++) {
		struct ht_err *err = tcbooks_find(view, module, ret, ret_count);
		bool is_torn = !err && !*ret_count && ret->count;
		if (!is_torn || view->spent || i == FINDS_MAX)
			return err;
		view_pause(view);
	}
}

struct ht_err *tcmalloc_read(
	struct view *view, const struct module *module, struct heap_account *ret, bool *ret_found)
{
	struct tcbooks books;
	size_t count;
	uint64_t kept = view->left - view->left / FIND_SHARE;
	*ret = (struct heap_account){.allocator = "tcmalloc"};
	view->left -= kept;
	struct ht_err *err = find(view, module, &books, &count);
	view->left += kept;
	view->spent = false;
	*ret_found = !err && count != 0;
	if (!*ret_found)
		return err;
	if (count > 1)
		account_explain(ret, "its data structures were found in more than one place");
	else
		read_books(view, &books, ret);
	view->spent = false;
	return NULL;
}
