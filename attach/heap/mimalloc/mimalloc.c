/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/heap/mimalloc/mimalloc.h"

#include "attach/heap/mimalloc/mimap.h"
#include "attach/heap/mimalloc/misegment_walk.h"
#include "attach/heap/view/account.h"

#define WALKS_MAX     4u
#define FIND_SHARE    4u /* of the budget */
#define MISSING_LEFT  4u /* pages that may be on their way, and one of so many */
#define MISSING_SHARE 64u

/* Where its pages are found: by segments, or in a map. */
struct source {
	struct miheap first;
	struct threads threads;
	struct mimap map;
	bool is_map;
};

struct walked {
	struct miwalk walk[2];
	const struct miwalk *last; /* NULL: none makes sense */
	uint64_t moved_bytes;	   /* since the one before */
	bool is_moving;		   /* it is not known how much, or it is not nothing */
	bool was_whole;		   /* once at least no page was missing */
};

static bool is_missing_more(const struct miwalk *walk)
{
	return walk->missing > MISSING_LEFT + walk->count / MISSING_SHARE;
}

/* Half of what is left for each but the last, so that there is something for the next. */
static struct ht_err *walk_once(
	struct view *view, const struct source *source, bool is_first, struct miwalk *ret)
{
	uint64_t kept = is_first ? view->left / 2 : 0;
	view->left -= kept;
	struct ht_err *err = source->is_map
				     ? mimap_walk(view, &source->map, ret)
				     : misegment_walk(view, &source->first, &source->threads, ret);
	view->left += kept;
	return err;
}

/* Until two in a row find the same. */
static struct ht_err *walk(struct view *view, const struct source *source, struct walked *ret)
{
	struct ht_err *err = NULL;
	ret->is_moving = true;
	for (unsigned i = 0; i < WALKS_MAX && ret->is_moving && !view->spent && !err; i++) {
		struct miwalk *now = &ret->walk[i % 2], *before = &ret->walk[(i + 1) % 2];
		err = walk_once(view, source, i == 0, now);
		if (!now->valid && !view->spent)
			view_pause(view);
		if (!now->valid)
			continue;
		ret->moved_bytes = before->valid ? miwalk_moved_bytes(before, now) : UINT64_MAX;
		ret->is_moving = ret->moved_bytes || now->missing;
		ret->was_whole |= !now->missing;
		ret->last = now;
	}
	/* The last may be where one that makes none has been since. */
	if (ret->last && !ret->last->valid)
		ret->last = NULL;
	return err;
}

/* Of a page on its way between a heap and a segment nothing is known but that it is like others. */
static uint64_t missing_bytes(const struct miwalk *walk)
{
	uint64_t most = MIWALK_SLICE_BYTES;
	for (size_t i = 0; i < walk->count; i++)
		if (walk->page[i].used * walk->page[i].block_bytes > most)
			most = walk->page[i].used * walk->page[i].block_bytes;
	return walk->missing * most;
}

static void take(struct heap_account *account, const struct walked *walked)
{
	const struct miwalk *last = walked->last;
	account->known = true;
	account->held_bytes = last->held_bytes;
	account->system_bytes = last->system_bytes;
	account->arenas = (uint32_t)last->heap_count;
	account_value(account, MEMORY_MIMALLOC_USED, account->held_bytes);
	account_value(account, MEMORY_MIMALLOC_SYSTEM, account->system_bytes);
	if (walked->moved_bytes == UINT64_MAX) {
		account->off_bytes = last->held_bytes;
		account_explain(account,
			"it has more pages, or changes them faster, than heaptap can read");
		return;
	}
	account->off_bytes = walked->moved_bytes + missing_bytes(last) + last->unsure_bytes;
	/* It cannot be more than there is. */
	if (last->unsure_bytes && account->off_bytes > last->held_bytes)
		account->off_bytes = last->held_bytes;
	if (last->unsure_bytes)
		account_explain(account,
			"threads have freed more blocks of other threads than heaptap can read");
	if (account->off_bytes)
		account_explain(account, "it was in use while it was read");
}

static void explain_unknown(
	struct heap_account *account, const struct view *view, const struct walked *walked)
{
	if (view->swapped)
		account_explain(account, "part of its page list is swapped out");
	else if (walked->walk[0].full)
		account_explain(account, "it has more pages than heaptap can read");
	else if (view->spent)
		account_explain(account, "it has more than heaptap can read");
	else
		account_explain(account, "its pages do not add up: it is changing, uses huge pages "
					 "of the system, or is a build that heaptap does not know");
}

static struct ht_err *find(struct view *view, const struct module *module, struct miwalk *spare,
	struct source *ret, size_t *ret_count)
{
	struct ht_err *err = NULL;
	uint64_t kept = view->left - view->left / FIND_SHARE;
	view->left -= kept;
	miheap_find(view, module, &ret->first, ret_count);
	if (!*ret_count) {
		view->spent = false;
		err = mimap_find(view, module, spare, &ret->map, ret_count);
		ret->is_map = *ret_count != 0;
	}
	view->left += kept;
	view->spent = false;
	return err;
}

static void read_all(struct view *view, const struct walked *walked, struct heap_account *ret)
{
	/* What is missing at rest is not on its way. */
	bool is_partial =
		walked->last &&
		(is_missing_more(walked->last) ||
			(walked->last->missing && !walked->moved_bytes && !walked->was_whole));
	if (!view->err && walked->last && !is_partial)
		take(ret, walked);
	else
		explain_unknown(ret, view, walked);
	view->spent = false;
}

struct ht_err *mimalloc_read(
	struct view *view, const struct module *module, struct heap_account *ret, bool *ret_found)
{
	struct source source = {0};
	struct walked walked = {0};
	size_t count;
	*ret = (struct heap_account){.allocator = "mimalloc"};
	struct ht_err *err = find(view, module, &walked.walk[0], &source, &count);
	*ret_found = !err && count != 0;
	if (count > 1)
		account_explain(ret, "more than one list of pages was found");
	if (!err && count == 1 && !source.is_map)
		err = threads_find(view, &source.threads);
	if (!err && count == 1) {
		walked.walk[0].valid = false;
		err = walk(view, &source, &walked);
		read_all(view, &walked, ret);
	}
	threads_deinit(&source.threads);
	miwalk_deinit(&walked.walk[0]);
	miwalk_deinit(&walked.walk[1]);
	return err;
}
