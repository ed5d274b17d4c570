/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/heap/jemalloc/jemalloc.h"

#include <inttypes.h>

#include "attach/heap/jemalloc/emap_find.h"
#include "attach/heap/jemalloc/jecache.h"
#include "attach/heap/view/account.h"
#include "attach/heap/view/walks.h"
#include "attach/proc/proc_status.h"

#define WALKS_MAX    4u
#define FIND_SHARE   4u /* of the budget */
#define CACHES_SHARE 8u

struct walked {
	const struct emap *emap;
	struct emap_walk walk[2];
};

static struct ht_err *walk(struct view *view, void *context, unsigned slot, bool *ret_valid)
{
	struct walked *walked = context;
	struct ht_err *err = emap_walk(view, walked->emap, &walked->walk[slot]);
	*ret_valid = walked->walk[slot].valid;
	return err;
}

static uint64_t moved_bytes(void *context, unsigned before, unsigned now)
{
	struct walked *walked = context;
	return emap_moved_bytes(&walked->walk[before], &walked->walk[now]);
}

static const struct walks_how how = {.max = WALKS_MAX, .walk = walk, .moved_bytes = moved_bytes};

static void take_walk(struct heap_account *account, const struct emap_walk *last, uint64_t moved)
{
	account->known = true;
	account->held_bytes = last->held_bytes;
	account->system_bytes = last->system_bytes;
	account->arenas = last->arenas;
	account->off_bytes = moved;
	if (moved == UINT64_MAX) {
		account->off_bytes = last->held_bytes;
		account_explain(account,
			"it has more extents, or changes them faster, than heaptap can read");
	}
	if (last->shorter && !last->longer)
		account_explain(account, "the page counts of its large blocks are not recorded");
}

static void take_caches(struct heap_account *account, uint64_t threads,
	const struct jecache *before, const struct jecache *now)
{
	uint64_t bytes = now->bytes < account->held_bytes ? now->bytes : account->held_bytes;
	/* A cache in a ring counts as read even if its thread was not found. */
	uint64_t reached = now->known > now->count ? now->known : now->count;
	uint64_t unknown = threads > reached ? threads - reached : 0;
	account->held_bytes -= bytes;
	account->off_bytes += account_distance(before->bytes, now->bytes);
	if (!now->count) {
		account->off_bytes += account->held_bytes;
		account_explain(account, "the caches of its threads were not found");
		return;
	}
	unknown += !now->whole;
	account->off_bytes += unknown * now->max_bytes;
	if (unknown)
		account_explain(account,
			"the caches of %" PRIu64 " of %" PRIu64 " threads could not be read",
			unknown, threads);
	else if (account->off_bytes)
		account_explain(account, "it was in use while it was read");
}

static void add_values(struct heap_account *account, const struct emap_walk *walk)
{
	account_value(account, MEMORY_JEMALLOC_ALLOCATED, account->held_bytes);
	account_value(account, MEMORY_JEMALLOC_ACTIVE, walk->state_bytes[EMAP_ACTIVE]);
	account_value(account, MEMORY_JEMALLOC_DIRTY, walk->state_bytes[EMAP_DIRTY]);
	account_value(account, MEMORY_JEMALLOC_MUZZY, walk->state_bytes[EMAP_MUZZY]);
	account_value(account, MEMORY_JEMALLOC_RETAINED, walk->state_bytes[EMAP_RETAINED]);
}

static void explain_unknown(struct heap_account *account, const struct view *view,
	const struct walked *walked, bool spent)
{
	if (view->swapped)
		account_explain(account, "part of its map of extents is swapped out");
	else if (walked->walk[0].full)
		account_explain(account, "it has more extents than heaptap can read");
	else if (spent)
		account_explain(account, "it has more than heaptap can read");
	else
		account_explain(account, "its map of extents is damaged");
}

static struct ht_err *read_all(struct view *view, const struct emap *emap,
	const struct threads *threads, struct heap_account *ret)
{
	struct proc_status status;
	struct jecache before, now;
	struct walked walked = {.emap = emap};
	struct walks walks;
	HT_TRY(proc_status(view->proc, 0, &status));
	uint64_t kept = view_limit(view, view->left / FIND_SHARE);
	struct jecache_place place = jecache_find(view, threads, emap->shape->is_old);
	view_unlimit(view, kept);
	HT_TRY(jecache_read(view, threads, &place, &before));
	kept = view_limit(view, view->left - view->left / CACHES_SHARE);
	struct ht_err *err = walks_take(view, &how, &walked, &walks);
	bool spent = view->spent;
	view_unlimit(view, kept);
	const struct emap_walk *last = walks.any ? &walked.walk[walks.last] : NULL;
	/* The caches are read before and after the extents: a block that moves between cache and
	 * extent meanwhile changes both readings. */
	if (!err && !view->err && last)
		err = jecache_read(view, threads, &place, &now);
	if (!err && !view->err && last) {
		take_walk(ret, last, walks.moved_bytes);
		take_caches(ret, status.threads, &before, &now);
		add_values(ret, last);
	} else {
		explain_unknown(ret, view, &walked, spent);
	}
	emap_walk_deinit(&walked.walk[0]);
	emap_walk_deinit(&walked.walk[1]);
	return err;
}

static struct ht_err *find(
	struct view *view, const struct module *module, void *found, size_t *ret_count)
{
	return emap_find(view, module, found, ret_count);
}

static struct ht_err *read_found(struct view *view, void *found, struct heap_account *ret)
{
	HT_CLEANUP(threads_deinit) struct threads threads = {0};
	HT_TRY(threads_find(view, &threads));
	return read_all(view, found, &threads, ret);
}

const struct reader jemalloc_reader = {
	.allocator = "jemalloc",
	.several = "more than one map of extents was found",
	.found_bytes = sizeof(struct emap),
	.find = find,
	.read = read_found,
};
