/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/heap/jemalloc/jemalloc.h"

#include <inttypes.h>

#include "attach/heap/jemalloc/emap_find.h"
#include "attach/heap/jemalloc/jecache.h"
#include "attach/heap/view/account.h"
#include "attach/proc/proc_status.h"

#define WALKS_MAX    4u
#define FIND_SHARE   4u /* of the budget */
#define CACHES_SHARE 8u

struct walked {
	struct emap_walk walk[2];     /* the two last ones */
	const struct emap_walk *last; /* that makes sense; NULL: none */
	uint64_t moved_bytes;	      /* between both; UINT64_MAX: one alone makes sense */
};

/* Until two in a row find the same. */
static struct ht_err *walk(struct view *view, const struct emap *emap, struct walked *ret)
{
	struct ht_err *err = NULL;
	unsigned valid = 0;
	*ret = (struct walked){.moved_bytes = UINT64_MAX};
	for (unsigned i = 0; i < WALKS_MAX && ret->moved_bytes && !view->spent && !err; i++) {
		struct emap_walk *now = &ret->walk[i % 2];
		/* The first walk must leave as much for the second. */
		uint64_t kept = i ? 0 : view->left / 2;
		view->left -= kept;
		err = emap_walk(view, emap, now);
		view->left += kept;
		valid = now->valid ? valid + 1 : 0;
		if (now->valid)
			ret->last = now;
		else if (ret->last == now)
			ret->last = NULL;
		/* It has grown since they were read. */
		if (!now->valid && !view->spent)
			view_pause(view);
		if (valid >= 2)
			ret->moved_bytes = emap_moved_bytes(&ret->walk[(i + 1) % 2], now);
	}
	return err;
}

static void take_walk(struct heap_account *account, const struct walked *walked)
{
	const struct emap_walk *last = walked->last;
	account->known = true;
	account->held_bytes = last->held_bytes;
	account->system_bytes = last->system_bytes;
	account->arenas = last->arenas;
	account->off_bytes = walked->moved_bytes;
	if (walked->moved_bytes == UINT64_MAX) {
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
	/* Those that have a cache in a ring are not missed. */
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
	struct walked walked = {0};
	struct ht_err *err = proc_status(view->proc, 0, &status);
	struct jecache_place place = {0};
	uint64_t kept = view->left - view->left / FIND_SHARE;
	view->left -= kept;
	if (!err)
		place = jecache_find(view, threads, emap->shape->is_old);
	view->left += kept;
	view->spent = false;
	if (!err)
		err = jecache_read(view, threads, &place, &before);
	kept = view->left / CACHES_SHARE;
	view->left -= kept;
	if (!err)
		err = walk(view, emap, &walked);
	view->left += kept;
	bool spent = view->spent;
	view->spent = false;
	/* What finds its way from one to the other meanwhile has moved in both. */
	if (!err && !view->err && walked.last)
		err = jecache_read(view, threads, &place, &now);
	if (!err && !view->err && walked.last) {
		take_walk(ret, &walked);
		take_caches(ret, status.threads, &before, &now);
		add_values(ret, walked.last);
	} else {
		explain_unknown(ret, view, &walked, spent);
	}
	emap_walk_deinit(&walked.walk[0]);
	emap_walk_deinit(&walked.walk[1]);
	return err;
}

struct ht_err *jemalloc_read(
	struct view *view, const struct module *module, struct heap_account *ret, bool *ret_found)
{
	struct emap emap;
	size_t count;
	uint64_t kept = view->left - view->left / FIND_SHARE;
	*ret = (struct heap_account){.allocator = "jemalloc"};
	view->left -= kept;
	struct ht_err *err = emap_find(view, module, &emap, &count);
	view->left += kept;
	view->spent = false;
	*ret_found = !err && count != 0;
	if (err || !count)
		return err;
	if (count > 1) {
		account_explain(ret, "more than one map of extents was found");
		return NULL;
	}
	struct threads threads;
	err = threads_find(view, &threads);
	if (!err)
		err = read_all(view, &emap, &threads, ret);
	threads_deinit(&threads);
	return err;
}
