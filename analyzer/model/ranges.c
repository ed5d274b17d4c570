/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/model/ranges.h"

#include <search.h>
#include <stdlib.h>

/* Treats overlapping ranges as equal. The ranges in the tree are disjoint, so this orders them, and
 * a search finds an overlapping one. */
static int compare(const void *a, const void *b)
{
	const struct range *x = a, *y = b;
	return (x->lo >= y->hi) - (y->lo >= x->hi);
}

void ranges_deinit(struct ranges *ranges)
{
	tdestroy(ranges->root, free);
	*ranges = (struct ranges){0};
}

static struct range *find(const struct ranges *ranges, uint64_t lo, uint64_t hi)
{
	const struct range wanted = {.lo = lo, .hi = hi};
	struct range *const *found = tfind(&wanted, &ranges->root, compare);
	return found ? *found : NULL;
}

bool ranges_overlap(const struct ranges *ranges, uint64_t lo, uint64_t hi)
{
	return find(ranges, lo, hi) != NULL;
}

static void take_out(struct ranges *ranges, struct range *range)
{
	tdelete(range, &ranges->root, compare);
	ranges->count--;
}

static bool is_alike(const struct range *a, const struct range *b)
{
	return a->mapped_by == b->mapped_by && a->used_by == b->used_by && a->usable == b->usable &&
	       a->file == b->file && a->before == b->before && a->used_before == b->used_before;
}

/* Joins an adjacent range at [lo, hi) with equal properties into `range`. */
static void join(struct ranges *ranges, struct range *range, uint64_t lo, uint64_t hi)
{
	struct range *neighbour = lo < hi ? find(ranges, lo, hi) : NULL;
	if (!neighbour || !is_alike(neighbour, range))
		return;
	take_out(ranges, neighbour);
	range->lo = neighbour->lo < range->lo ? neighbour->lo : range->lo;
	range->hi = neighbour->hi > range->hi ? neighbour->hi : range->hi;
	free(neighbour);
}

struct ht_err *ranges_put(struct ranges *ranges, const struct range *range, bool *ret_refused)
{
	*ret_refused = ranges->count == RANGES_MAX;
	if (*ret_refused)
		return NULL;
	struct range *copy = malloc(sizeof(*copy));
	if (copy) {
		*copy = *range;
		join(ranges, copy, range->lo ? range->lo - 1 : 0, range->lo);
		join(ranges, copy, range->hi, range->hi + 1);
	}
	if (!copy || !tsearch(copy, &ranges->root, compare)) {
		free(copy);
		return ht_err_new(HT_ERR_NOMEM, "out of memory for mapped ranges");
	}
	ranges->count++;
	return NULL;
}

struct cut {
	struct ranges *ranges;
	ranges_sink *sink;
	void *context;
};

/* Puts back the part [lo, hi) of a range that was cut, if it is not empty. If RANGES_MAX is
 * reached, the part is removed instead and passed to the sink. */
static struct ht_err *put_back(
	const struct cut *cut, const struct range *range, uint64_t lo, uint64_t hi)
{
	struct range rest = *range;
	bool refused;
	rest.lo = lo;
	rest.hi = hi;
	if (lo >= hi)
		return NULL;
	HT_TRY(ranges_put(cut->ranges, &rest, &refused));
	return refused ? cut->sink(cut->context, &rest) : NULL;
}

struct ht_err *ranges_cut(
	struct ranges *ranges, uint64_t lo, uint64_t hi, ranges_sink *sink, void *context)
{
	const struct cut cut = {.ranges = ranges, .sink = sink, .context = context};
	struct range *found;
	while ((found = find(ranges, lo, hi))) {
		struct range piece = *found;
		take_out(ranges, found);
		free(found);
		HT_TRY(put_back(&cut, &piece, piece.lo, lo));
		HT_TRY(put_back(&cut, &piece, hi, piece.hi));
		piece.lo = piece.lo < lo ? lo : piece.lo;
		piece.hi = piece.hi > hi ? hi : piece.hi;
		HT_TRY(sink(context, &piece));
	}
	return NULL;
}
