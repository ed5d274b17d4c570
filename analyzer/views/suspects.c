/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/views/suspects.h"

#include <stdlib.h>

#include "analyzer/views/callers.h"

void suspects_deinit(struct suspects *suspects)
{
	free(suspects->entry);
	*suspects = (struct suspects){0};
}

uint32_t suspects_leaf_frame(const struct view *view, const struct row *row)
{
	const uint32_t group = view->tree.node[row->node].group;
	return group == UINT32_MAX ? UINT32_MAX : view->groups.group[group].frame;
}

/* A program that waits at the end of the window has not stopped leaking: buckets in which it
 * allocates nothing at all are left out there, up to a fifth of the window. */
static uint32_t busy_buckets(const struct view *view)
{
	const struct timeline *timeline = &view->analysis->cube.timeline;
	const uint32_t count = view->window.to - view->window.from;
	uint32_t busy = count;
	while (busy > count - count / 5 &&
		!timeline->step[view->window.from + busy - 1].allocations)
		busy--;
	return busy;
}

static void classify(const struct view *view, const struct row *row, uint32_t buckets,
	struct window_series *series, struct suspect *ret)
{
	view_series(view, row, series);
	const struct suspect_input input = {
		.bucket_ns = view->analysis->cube.step_ns,
		.buckets = buckets,
		.live_bytes = series->live_bytes,
		.allocated_bytes = series->allocated_bytes,
		.surviving_bytes = series->surviving_bytes,
		.surviving_blocks = series->surviving_blocks,
		.allocated_blocks = series->allocated_blocks,
		.freed_blocks = series->freed_blocks,
		.freed_by_age = series->freed_by_age,
		.freed_total_blocks = row->sums.frees,
		.lifetime_ns_total = row->sums.lifetime_us * 1000,
		.lifetime_max_ns = series->longest_ns,
		.older_freed_blocks = series->older_freed_blocks,
		.is_sample = view->analysis->cube.sample_bytes != 0,
	};
	suspect_classify(&input, ret);
}

static double weight(const struct suspect *suspect)
{
	return suspect->confidence *
	       (suspect->slope_bytes_per_s > 0 ? suspect->slope_bytes_per_s : 0);
}

struct order {
	const struct view *view;
};

static int compare(const void *a, const void *b, void *context)
{
	const struct order *order = context;
	const struct suspects_entry *x = a, *y = b;
	const bool x_grows = x->suspect.class == SUSPECT_GROWING;
	const bool y_grows = y->suspect.class == SUSPECT_GROWING;
	if (x_grows != y_grows)
		return x_grows ? -1 : 1;
	if (x_grows && weight(&x->suspect) != weight(&y->suspect))
		return weight(&x->suspect) > weight(&y->suspect) ? -1 : 1;
	const uint64_t bx = sums_outstanding_bytes(&order->view->row[x->row].sums);
	const uint64_t by = sums_outstanding_bytes(&order->view->row[y->row].sums);
	if (bx != by)
		return bx > by ? -1 : 1;
	return (x->row > y->row) - (x->row < y->row);
}

static struct ht_err *classify_rows(
	const struct view *view, const uint32_t *row, struct suspects *suspects)
{
	const uint32_t buckets = busy_buckets(view);
	struct window_series *series = malloc(sizeof(*series));
	if (!series)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for the series of a stack");
	for (size_t i = 0; i < view->row_count && suspects->count < SUSPECTS_LOOKED_AT; i++) {
		if (!sums_outstanding_bytes(&view->row[row[i]].sums))
			break;
		struct suspects_entry *entry = &suspects->entry[suspects->count++];
		entry->row = row[i];
		classify(view, &view->row[row[i]], buckets, series, &entry->suspect);
		suspects->growing += entry->suspect.class == SUSPECT_GROWING;
	}
	free(series);
	return NULL;
}

struct ht_err *suspects_find(const struct view *view, struct suspects *ret)
{
	struct order order = {view};
	uint32_t *row;
	*ret = (struct suspects){0};
	struct ht_err *err = view_order(view, METRIC_OUTSTANDING, &row);
	if (err)
		return err;
	ret->entry = calloc(SUSPECTS_LOOKED_AT, sizeof(*ret->entry));
	err = ret->entry ? classify_rows(view, row, ret)
			 : ht_err_new(HT_ERR_NOMEM, "out of memory for suspects");
	free(row);
	if (err)
		return err;
	qsort_r(ret->entry, ret->count, sizeof(*ret->entry), compare, &order);
	if (ret->count > SUSPECTS_MAX)
		ret->count = SUSPECTS_MAX;
	if (ret->growing > ret->count)
		ret->growing = ret->count;
	return NULL;
}

struct ht_err *suspects_classes(
	const struct view *view, const struct suspects *suspects, enum suspect_class **ret)
{
	*ret = malloc((view->row_count + 1) * sizeof(**ret));
	if (!*ret)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for %zu stacks", view->row_count);
	for (size_t i = 0; i < view->row_count; i++)
		(*ret)[i] = SUSPECT_CLASS_COUNT;
	for (size_t i = 0; i < suspects->count; i++)
		(*ret)[suspects->entry[i].row] = suspects->entry[i].suspect.class;
	return NULL;
}

/* --- sites -------------------------------------------------------------------------------------
 */

static bool belongs(const struct view *view, const struct suspects_site *site,
	const struct suspects_entry *entry)
{
	return site->suspect.class == entry->suspect.class &&
	       callers_are_alike(view, view->row[site->row].node, view->row[entry->row].node);
}

static void join(
	const struct view *view, struct suspects_site *site, const struct suspects_entry *entry)
{
	const struct sums *more = &view->row[entry->row].sums;
	const struct sums *first = &view->row[site->row].sums;
	struct suspect *suspect = &site->suspect;
	if (sums_outstanding_bytes(more) > sums_outstanding_bytes(first))
		site->row = entry->row;
	sums_add(&site->sums, more);
	site->chains++;
	suspect->slope_bytes_per_s += entry->suspect.slope_bytes_per_s;
	if (suspect->confidence < entry->suspect.confidence)
		suspect->confidence = entry->suspect.confidence;
	if (suspect->oldest_ns < entry->suspect.oldest_ns)
		suspect->oldest_ns = entry->suspect.oldest_ns;
}

static int compare_sites(const void *a, const void *b)
{
	const struct suspects_site *x = a, *y = b;
	const bool x_grows = x->suspect.class == SUSPECT_GROWING;
	const bool y_grows = y->suspect.class == SUSPECT_GROWING;
	if (x_grows != y_grows)
		return x_grows ? -1 : 1;
	if (x_grows && weight(&x->suspect) != weight(&y->suspect))
		return weight(&x->suspect) > weight(&y->suspect) ? -1 : 1;
	const uint64_t bx = sums_outstanding_bytes(&x->sums);
	const uint64_t by = sums_outstanding_bytes(&y->sums);
	if (bx != by)
		return bx > by ? -1 : 1;
	return (x->row > y->row) - (x->row < y->row);
}

struct ht_err *suspects_sites(const struct view *view, const struct suspects *suspects,
	enum suspect_class of_class, struct suspects_site **ret, size_t *ret_count)
{
	struct suspects_site *site = calloc(suspects->count + 1, sizeof(*site));
	size_t count = 0;
	if (!site)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for suspects");
	for (size_t i = 0; i < suspects->count; i++) {
		const struct suspects_entry *entry = &suspects->entry[i];
		size_t at = 0;
		if (of_class != SUSPECT_CLASS_COUNT && entry->suspect.class != of_class)
			continue;
		while (at < count && !belongs(view, &site[at], entry))
			at++;
		if (at < count) {
			join(view, &site[at], entry);
			continue;
		}
		site[count++] = (struct suspects_site){.row = entry->row,
			.chains = 1,
			.sums = view->row[entry->row].sums,
			.suspect = entry->suspect};
	}
	qsort(site, count, sizeof(*site), compare_sites);
	*ret = site;
	*ret_count = count;
	return NULL;
}
