/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/heap/tcmalloc/tcmalloc.h"

#include "attach/heap/tcmalloc/tcbooks.h"
#include "attach/heap/view/account.h"
#include "attach/heap/view/walks.h"

#define READINGS_MAX 16u /* each costs some dozens of looks */
#define FINDS_MAX    32u /* with the pauses between: 160 ms, a sixth of a reading's time */

struct readings {
	const struct tcbooks *books;
	struct tcbooks_sum sum[2];
	/* The reading that differs least from the one before it. */
	struct tcbooks_sum best;
	uint64_t moved_bytes;
};

/* A reading that meets a change in progress is inconsistent: not valid. */
static struct ht_err *walk(struct view *view, void *context, unsigned slot, bool *ret_valid)
{
	struct readings *readings = context;
	tcbooks_read(view, readings->books, &readings->sum[slot]);
	*ret_valid = readings->sum[slot].valid;
	return NULL;
}

static uint64_t moved_bytes(void *context, unsigned before, unsigned now)
{
	struct readings *readings = context;
	uint64_t moved =
		tcbooks_moved_bytes(readings->books, &readings->sum[before], &readings->sum[now]);
	if (moved < readings->moved_bytes) {
		readings->best = readings->sum[now];
		readings->moved_bytes = moved;
	}
	return moved;
}

static const struct walks_how how = {
	.max = READINGS_MAX, .is_small = true, .walk = walk, .moved_bytes = moved_bytes};

static struct ht_err *read_found(struct view *view, void *found, struct heap_account *ret)
{
	const struct tcbooks *books = found;
	struct readings readings = {.books = books, .moved_bytes = UINT64_MAX};
	struct walks walks;
	HT_TRY(walks_take(view, &how, &readings, &walks));
	if (readings.moved_bytes == UINT64_MAX) {
		account_explain(ret, view->swapped ? "part of its data structures is swapped out"
						   : "its data structures do not add up");
		return NULL;
	}
	ret->known = true;
	ret->held_bytes = readings.best.held_bytes;
	ret->system_bytes = readings.best.system_bytes;
	ret->off_bytes = readings.moved_bytes;
	account_value(ret, MEMORY_TCMALLOC_USED, ret->held_bytes);
	account_value(ret, MEMORY_TCMALLOC_SYSTEM, ret->system_bytes);
	ret->arenas = readings.best.caches;
	if (!books->cache) {
		ret->off_bytes = readings.best.held_bytes;
		account_explain(ret, "the caches of its threads were not found");
	}
	if (readings.moved_bytes)
		account_explain(ret, "it was in use while it was read");
	return NULL;
}

/* Tries again: the table of sizes is constant, but lists are inconsistent while a thread changes
 * them. */
static struct ht_err *find(
	struct view *view, const struct module *module, void *found, size_t *ret_count)
{
	struct tcbooks *books = found;
	for (unsigned i = 1;; i++) {
		struct ht_err *err = tcbooks_find(view, module, books, ret_count);
		bool is_torn = !err && !*ret_count && books->count;
		if (!is_torn || view->spent || i == FINDS_MAX)
			return err;
		view_pause(view);
	}
}

const struct reader tcmalloc_reader = {
	.allocator = "tcmalloc",
	.several = "its data structures were found in more than one place",
	.found_bytes = sizeof(struct tcbooks),
	.find = find,
	.read = read_found,
};
