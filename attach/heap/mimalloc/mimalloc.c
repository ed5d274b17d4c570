/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/heap/mimalloc/mimalloc.h"

#include "attach/heap/mimalloc/mimap.h"
#include "attach/heap/mimalloc/misegment_walk.h"
#include "attach/heap/view/account.h"
#include "attach/heap/view/walks.h"

#define WALKS_MAX     4u
#define MISSING_LEFT  4u /* tolerated: 4 pages, and 1 in 64, that are moving */
#define MISSING_SHARE 64u

/* The place of an allocator's pages: in segments, or through a map. */
struct source {
	struct miheap first;
	struct threads threads;
	struct mimap map;
	bool is_map;
};

struct walked {
	struct source source;
	struct miwalk walk[2];
	bool was_whole; /* some walk missed no page */
};

static bool is_missing_more(const struct miwalk *walk)
{
	return walk->missing > MISSING_LEFT + walk->count / MISSING_SHARE;
}

static struct ht_err *walk(struct view *view, void *context, unsigned slot, bool *ret_valid)
{
	struct walked *walked = context;
	struct source *source = &walked->source;
	struct miwalk *now = &walked->walk[slot];
	struct ht_err *err = source->is_map
				     ? mimap_walk(view, &source->map, now)
				     : misegment_walk(view, &source->first, &source->threads, now);
	*ret_valid = now->valid;
	walked->was_whole |= now->valid && !now->missing;
	return err;
}

static uint64_t moved_bytes(void *context, unsigned before, unsigned now)
{
	struct walked *walked = context;
	return miwalk_moved_bytes(&walked->walk[before], &walked->walk[now]);
}

static bool is_partial(void *context, unsigned slot)
{
	struct walked *walked = context;
	return walked->walk[slot].missing != 0;
}

static const struct walks_how how = {
	.max = WALKS_MAX, .walk = walk, .moved_bytes = moved_bytes, .is_partial = is_partial};

/* The size of a page that is moving between heap and segment is unknown: assume the largest. */
static uint64_t missing_bytes(const struct miwalk *walk)
{
	uint64_t most = MIWALK_SLICE_BYTES;
	for (size_t i = 0; i < walk->count; i++)
		if (walk->page[i].used * walk->page[i].block_bytes > most)
			most = walk->page[i].used * walk->page[i].block_bytes;
	return walk->missing * most;
}

static void take(struct heap_account *account, const struct miwalk *last, uint64_t moved)
{
	account->known = true;
	account->held_bytes = last->held_bytes;
	account->system_bytes = last->system_bytes;
	account->arenas = (uint32_t)last->heap_count;
	account_value(account, MEMORY_MIMALLOC_USED, account->held_bytes);
	account_value(account, MEMORY_MIMALLOC_SYSTEM, account->system_bytes);
	if (moved == UINT64_MAX) {
		account->off_bytes = last->held_bytes;
		account_explain(account,
			"it has more pages, or changes them faster, than heaptap can read");
		return;
	}
	account->off_bytes = moved + missing_bytes(last) + last->unsure_bytes;
	/* The error cannot exceed what is handed out. */
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

static struct ht_err *find(
	struct view *view, const struct module *module, void *found, size_t *ret_count)
{
	struct walked *walked = found;
	struct source *source = &walked->source;
	struct ht_err *err = miheap_find(view, module, &source->first, ret_count);
	if (err || *ret_count)
		return err;
	view->spent = false;
	source->is_map = true;
	return mimap_find(view, module, &walked->walk[0], &source->map, ret_count);
}

static struct ht_err *read_found(struct view *view, void *found, struct heap_account *ret)
{
	struct walks walks;
	struct walked *walked = found;
	struct source *source = &walked->source;
	struct ht_err *err = source->is_map ? NULL : threads_find(view, &source->threads);
	HT_THEN(err, walks_take(view, &how, walked, &walks));
	if (err)
		return err;
	const struct miwalk *last = walks.any ? &walked->walk[walks.last] : NULL;
	/* A page that is missing while nothing changes is not moving, so the reading is wrong. */
	bool is_known = last && !is_missing_more(last) &&
			(!last->missing || walks.moved_bytes || walked->was_whole);
	if (!view->err && is_known)
		take(ret, last, walks.moved_bytes);
	else
		explain_unknown(ret, view, walked);
	return NULL;
}

static void deinit(void *found)
{
	struct walked *walked = found;
	threads_deinit(&walked->source.threads);
	miwalk_deinit(&walked->walk[0]);
	miwalk_deinit(&walked->walk[1]);
}

const struct reader mimalloc_reader = {
	.allocator = "mimalloc",
	.several = "more than one list of pages was found",
	.found_bytes = sizeof(struct walked),
	.find = find,
	.read = read_found,
	.deinit = deinit,
};
