/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/views/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "format/array.h"
#include "analyzer/views/pauses.h"

#define NS_PER_MINUTE 60e9

void compare_deinit(struct compare *compare)
{
	free(compare->entry);
	free(compare->sums);
	free(compare->even_sums);
	map_deinit(&compare->by_chain);
	*compare = (struct compare){0};
}

/* --- chains by name ----------------------------------------------------------------------------
 */

static uint64_t hash_text(uint64_t hash, const char *text)
{
	return text ? strings_hash(hash, text, strlen(text) + 1) : strings_hash(hash, "\1", 2);
}

/* Files count by the last part of their path: the rest differs from build to build. */
static uint64_t hash_frame(uint64_t hash, const struct view *view, const struct frame *frame)
{
	const char *module = modules_path(&view->analysis->model.modules, frame->module);
	hash = hash_text(hash, frame->function);
	hash = hash_text(hash, strings_base_name(frame->file ? frame->file : module));
	return frame->function ? hash : strings_hash(hash, &frame->offset, sizeof(frame->offset));
}

static uint64_t hash_chain(const struct view *view, uint32_t node)
{
	uint64_t hash = STRINGS_HASH;
	for (uint32_t at = node; at; at = view->tree.node[at].parent) {
		const uint32_t group = view->tree.node[at].group;
		if (group == UINT32_MAX)
			hash = hash_text(hash, "other");
		else
			hash = hash_frame(
				hash, view, &view->frames.frame[view->groups.group[group].frame]);
	}
	return hash;
}

/* --- entries -----------------------------------------------------------------------------------
 */

static struct ht_err *find_entry(struct compare *compare, uint64_t chain, uint32_t *ret)
{
	if (map_get(&compare->by_chain, chain, ret))
		return NULL;
	const size_t first = compare->count * compare->view_count;
	HT_TRY(array_reserve(&compare->entry, &compare->capacity, compare->count + 1,
		sizeof(*compare->entry), "sites"));
	HT_TRY(array_reserve(&compare->sums, &compare->sums_capacity, first + compare->view_count,
		sizeof(*compare->sums), "sites"));
	HT_TRY(array_reserve(&compare->even_sums, &compare->even_capacity,
		first + compare->view_count, sizeof(*compare->even_sums), "sites"));
	*ret = (uint32_t)compare->count++;
	compare->entry[*ret] = (struct compare_entry){.first = (uint32_t)first};
	return map_put(&compare->by_chain, chain, *ret);
}

static uint64_t length_ns(const struct view *view)
{
	return view->to_ns - view->from_ns;
}

/* The recorded time, without pauses: the base of rates. */
static uint64_t recorded_ns(const struct view *view, uint64_t length)
{
	const uint64_t to_ns = view->from_ns + length;
	return length - pauses_within(&view->analysis->model, view->from_ns, to_ns).sum_ns;
}

/* Sums of the first part of the window, by site of the cube; of the whole window if the query
 * selects blocks by time. */
static struct ht_err *find_even(
	struct compare *compare, uint32_t index, uint64_t even_ns, struct sums **ret)
{
	const struct view *view = compare->view[index];
	const struct cube *cube = &view->analysis->cube;
	struct window part = view->window;
	if (!view->query.alive_at && length_ns(view) > even_ns)
		part = window_snap(cube, view->from_ns, view->from_ns + even_ns);
	compare->even_ns[index] = part.to < view->window.to
					  ? window_end_ns(cube, part) - view->from_ns
					  : length_ns(view);
	return window_sums(cube, part, ret);
}

static struct ht_err *add_row(
	struct compare *compare, uint32_t index, uint32_t row_index, const struct sums *even)
{
	const struct view *view = compare->view[index];
	const struct row *row = &view->row[row_index];
	uint32_t at;
	HT_TRY(find_entry(compare, hash_chain(view, row->node), &at));
	struct compare_entry *entry = &compare->entry[at];
	entry->view = index;
	entry->row = row_index;
	sums_add(&compare->sums[entry->first + index], &row->sums);
	for (uint32_t i = 0; i < row->count; i++) {
		const struct sums *part = &even[view->row_site[row->first + i]];
		sums_add(&compare->even_sums[entry->first + index], part);
		sums_add(&compare->even_total[index], part);
	}
	return NULL;
}

static struct ht_err *add_view(struct compare *compare, uint32_t index, uint64_t even_ns)
{
	struct sums *even = NULL;
	struct ht_err *err = find_even(compare, index, even_ns, &even);
	for (uint32_t i = 0; i < compare->view[index]->row_count && !err; i++)
		err = add_row(compare, index, i, even);
	free(even);
	return err;
}

struct ht_err *compare_init(
	struct compare *compare, const struct view *const *view, uint32_t view_count)
{
	struct ht_err *err = NULL;
	uint64_t even_ns = UINT64_MAX;
	*compare = (struct compare){.view = view, .view_count = view_count};
	for (uint32_t i = 0; i < view_count; i++)
		even_ns = length_ns(view[i]) < even_ns ? length_ns(view[i]) : even_ns;
	for (uint32_t i = 0; i < view_count && !err; i++)
		err = add_view(compare, i, even_ns);
	if (err)
		compare_deinit(compare);
	return err;
}

/* --- changes -----------------------------------------------------------------------------------
 */

bool compare_is_per_minute(enum metric metric)
{
	return metric != METRIC_LIVE && metric != METRIC_PEAK &&
	       metric_info(metric)->unit != METRIC_TIME_NS;
}

static bool is_held(enum metric metric)
{
	return metric == METRIC_OUTSTANDING || metric == METRIC_GROWTH;
}

static double per_minute(double value, uint64_t length, enum metric metric)
{
	return length && compare_is_per_minute(metric) ? value / ((double)length / NS_PER_MINUTE)
						       : value;
}

/* A figure of a whole window; per minute if compare_is_per_minute. */
static double rate_of(
	const struct compare *compare, uint32_t view, double value, enum metric metric)
{
	const struct view *of = compare->view[view];
	return per_minute(value, recorded_ns(of, length_ns(of)), metric);
}

double compare_rate(const struct compare *compare, const struct compare_entry *entry, uint32_t view,
	enum metric metric)
{
	const struct sums *sums = compare_sums(compare, entry, view);
	return rate_of(compare, view, (double)metric_value(sums, metric), metric);
}

/* --- bounds ------------------------------------------------------------------------------------
 */

bool compare_is_sample(const struct compare *compare)
{
	for (uint32_t i = 0; i < compare->view_count; i++)
		if (compare->view[i]->analysis->cube.sample_bytes)
			return true;
	return false;
}

double compare_bound(const struct compare *compare, const struct compare_entry *entry,
	uint32_t view, enum metric metric)
{
	const struct sums *sums = compare_sums(compare, entry, view);
	return rate_of(compare, view, (double)metric_bound(sums, metric), metric);
}

double compare_difference_bound(double before, double after)
{
	return hypot(before, after);
}

double compare_variance(const struct compare *compare, const struct compare_entry *entry,
	uint32_t view, enum metric metric)
{
	const double scale = rate_of(compare, view, 1, metric);
	return (double)compare_sums(compare, entry, view)->variance[metric] * scale * scale;
}

/* --- classes -----------------------------------------------------------------------------------
 */

static double change_of(
	const struct compare *compare, const struct compare_entry *entry, enum metric metric)
{
	return compare_rate(compare, entry, compare->view_count - 1, metric) -
	       compare_rate(compare, entry, 0, metric);
}

/* A figure in one view, over the whole window or its first part of equal length. */
struct side {
	double value, all; /* of an entry, and of all sites together */
	double bound;	   /* of `value`; 0: it is exact */
	uint64_t ns;	   /* recorded time */
};

static struct side side_of(const struct compare *compare, const struct compare_entry *entry,
	uint32_t index, bool is_even, enum metric metric)
{
	const struct view *view = compare->view[index];
	const struct sums *all = is_even ? &compare->even_total[index] : &view->total;
	const struct sums *sums = !is_even ? compare_sums(compare, entry, index)
				  : entry  ? &compare->even_sums[entry->first + index]
					   : all;
	return (struct side){
		.value = (double)metric_value(sums, metric),
		.all = (double)metric_value(all, metric),
		.bound = (double)metric_bound(sums, metric),
		.ns = recorded_ns(view, is_even ? compare->even_ns[index] : length_ns(view)),
	};
}

static struct side side_per_minute(struct side side, enum metric metric)
{
	side.value = per_minute(side.value, side.ns, metric);
	side.all = per_minute(side.all, side.ns, metric);
	side.bound = per_minute(side.bound, side.ns, metric);
	return side;
}

static enum compare_change classify(struct side before, struct side after)
{
	const double change = after.value - before.value, all = before.all + after.all;
	const double bound = compare_difference_bound(before.bound, after.bound);
	if (fabs(change) <= fmax(all / 1000, bound))
		return COMPARE_SAME;
	if (before.value <= 0 && after.value > 0)
		return COMPARE_NEW;
	if (after.value <= 0 && before.value > 0)
		return COMPARE_GONE;
	if (change > fabs(before.value) / 10)
		return COMPARE_GROWN;
	return -change > fabs(after.value) / 10 ? COMPARE_SHRUNK : COMPARE_SAME;
}

/* The change of the rate; COMPARE_SAME if the amount of a held metric does not show it too. */
static enum compare_change agreed(const struct compare *compare, const struct compare_entry *entry,
	bool is_even, enum metric metric)
{
	const struct side before = side_of(compare, entry, 0, is_even, metric);
	const struct side after = side_of(compare, entry, compare->view_count - 1, is_even, metric);
	const enum compare_change rate =
		classify(side_per_minute(before, metric), side_per_minute(after, metric));
	return is_held(metric) && classify(before, after) != rate ? COMPARE_SAME : rate;
}

enum compare_change compare_change_of(
	const struct compare *compare, const struct compare_entry *entry, enum metric metric)
{
	const enum compare_change change = agreed(compare, entry, false, metric);
	return change == COMPARE_SAME && is_held(metric) ? agreed(compare, entry, true, metric)
							 : change;
}

const char *compare_change_name(enum compare_change change)
{
	static const char *const name[] = {
		[COMPARE_NEW] = "new",
		[COMPARE_GROWN] = "grown",
		[COMPARE_SHRUNK] = "shrunk",
		[COMPARE_GONE] = "gone",
		[COMPARE_SAME] = "same",
	};
	return name[change];
}

struct order {
	const struct compare *compare;
	enum metric metric;
};

static int group_of(const struct order *order, const struct compare_entry *entry)
{
	switch (compare_change_of(order->compare, entry, order->metric)) {
	case COMPARE_NEW:
	case COMPARE_GROWN:
		return 0;
	case COMPARE_SHRUNK:
	case COMPARE_GONE:
		return 2;
	case COMPARE_SAME:
		break;
	}
	return 1;
}

static int compare_entries(const void *a, const void *b, void *context)
{
	const struct order *order = context;
	const struct compare_entry *x = a, *y = b;
	const int gx = group_of(order, x), gy = group_of(order, y);
	if (gx != gy)
		return gx - gy;
	const double cx = change_of(order->compare, x, order->metric);
	const double cy = change_of(order->compare, y, order->metric);
	if (cx != cy)
		return cx > cy ? -1 : 1;
	const double rx = compare_rate(order->compare, x, 0, order->metric);
	const double ry = compare_rate(order->compare, y, 0, order->metric);
	if (rx != ry)
		return rx > ry ? -1 : 1;
	return (x->first > y->first) - (x->first < y->first);
}

void compare_sort(struct compare *compare, enum metric metric)
{
	struct order order = {compare, metric};
	if (compare->count)
		qsort_r(compare->entry, compare->count, sizeof(*compare->entry), compare_entries,
			&order);
}
