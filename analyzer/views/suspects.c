/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/views/suspects.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/views/callers.h"
#include "analyzer/views/pauses.h"

void suspects_deinit(struct suspects *suspects)
{
	free(suspects->entry);
	free(suspects->member);
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

#define LARGE_PART 16u /* a chain with this part of a site's bytes is judged by itself */

/* The rows of one site, the largest first. */
struct rows {
	const uint32_t *row;
	size_t count;
	uint64_t bytes; /* outstanding */
};

struct search {
	const struct view *view;
	struct suspects *suspects;
	struct callers_key *key; /* by node */
	struct rows *site;	 /* rows that read alike; they lie in suspects->member */
	size_t site_count;
	uint32_t buckets;
	struct window_series *series;
	uint64_t work_blocks[TIMELINE_STEPS];
};

/* What the trace shows behind the window counts: most of what stayed in it was freed then. */
static bool are_freed_later(const struct view *view, struct rows rows, const struct sums *sums)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < rows.count; i++) {
		const struct row *row = &view->row[rows.row[i]];
		for (uint32_t k = 0; k < row->count; k++)
			bytes += window_freed_later(&view->analysis->cube, view->window,
				view->row_site[row->first + k]);
	}
	return bytes > sums_outstanding_bytes(sums) / 2;
}

/* The age of the oldest block that is left, pauses included. */
static uint64_t oldest_of(
	const struct view *view, uint32_t buckets, const struct window_series *series)
{
	for (uint32_t i = 0; i < buckets; i++)
		if (series->surviving_blocks[i])
			return (buckets - i) * view->analysis->cube.step_ns;
	return 0;
}

/* What the program does, by bucket: blocks of all sites that were freed again. */
static void find_work(
	const struct view *view, uint32_t buckets, struct window_series *series, uint64_t *ret)
{
	view_total_series(view, view->window, series);
	pauses_cut(view, buckets, series);
	for (uint32_t i = 0; i < buckets; i++)
		ret[i] = series->allocated_blocks[i] - series->surviving_blocks[i];
}

static struct ht_err *classify(struct search *search, struct rows rows, struct suspects_entry *ret)
{
	const struct view *view = search->view;
	struct window_series *series = search->series;
	uint32_t buckets = search->buckets;
	ret->row = rows.row[0];
	ret->chains = rows.count;
	for (size_t i = 0; i < rows.count; i++) {
		const struct sums *sums = &view->row[rows.row[i]].sums;
		sums_add(&ret->sums, sums);
		if (sums_outstanding_bytes(sums) >
			sums_outstanding_bytes(&view->row[ret->row].sums))
			ret->row = rows.row[i];
	}
	struct ht_err *err = view_rows_series(view, rows.row, rows.count, series);
	if (err)
		return err;
	uint64_t oldest_ns = oldest_of(view, buckets, series);
	buckets = pauses_cut(view, buckets, series);
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
		.freed_total_blocks = ret->sums.frees,
		.lifetime_ns_total = ret->sums.lifetime_us * 1000,
		.lifetime_max_ns = series->longest_ns,
		.older_freed_blocks = series->older_freed_blocks,
		.work_blocks = search->work_blocks,
		.is_sample = view->analysis->cube.sample_bytes != 0,
		.paused_ns =
			pauses_within(&view->analysis->model, view->from_ns, view->to_ns).sum_ns,
	};
	suspect_classify(&input, &ret->suspect);
	ret->suspect.oldest_ns = oldest_ns;
	if (ret->suspect.class == SUSPECT_GROWING && are_freed_later(view, rows, &ret->sums)) {
		ret->suspect.class = SUSPECT_UNCLEAR;
		ret->suspect.slope_bytes_per_s = 0;
		snprintf(ret->suspect.text, sizeof(ret->suspect.text),
			"Unclear: most of these blocks are freed after this part of the trace.");
	}
	return NULL;
}

static double weight(const struct suspect *suspect)
{
	return suspect->confidence *
	       (suspect->slope_bytes_per_s > 0 ? suspect->slope_bytes_per_s : 0);
}

static int compare_entries(const void *a, const void *b)
{
	const struct suspects_entry *x = a, *y = b;
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

/* --- sites -------------------------------------------------------------------------------------
 */

static void search_deinit(struct search *search)
{
	free(search->key);
	free(search->site);
	free(search->series);
}

static int compare_rows(const void *a, const void *b, void *context)
{
	const struct search *search = context;
	const struct row *x = &search->view->row[*(const uint32_t *)a];
	const struct row *y = &search->view->row[*(const uint32_t *)b];
	const int order = callers_compare(&search->key[x->node], &search->key[y->node]);
	const uint64_t bx = sums_outstanding_bytes(&x->sums), by = sums_outstanding_bytes(&y->sums);
	if (order)
		return order;
	return bx != by ? (bx > by ? -1 : 1) : (x > y) - (x < y);
}

static int compare_sites(const void *a, const void *b)
{
	const struct rows *x = a, *y = b;
	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return (x->row > y->row) - (x->row < y->row);
}

static struct ht_err *search_init(struct search *search)
{
	const struct view *view = search->view;
	uint32_t *member = search->suspects->member =
		calloc(view->row_count + 1, sizeof(*search->suspects->member));
	size_t count = 0;
	search->site = calloc(view->row_count + 1, sizeof(*search->site));
	search->series = malloc(sizeof(*search->series));
	search->suspects->entry = calloc(SUSPECTS_LOOKED_AT, sizeof(*search->suspects->entry));
	search->buckets = busy_buckets(view);
	if (!member || !search->site || !search->series || !search->suspects->entry)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for suspects");
	find_work(view, search->buckets, search->series, search->work_blocks);
	struct ht_err *err = callers_keys(view, &search->key);
	if (err)
		return err;
	for (uint32_t i = 0; i < view->row_count; i++)
		if (sums_outstanding_bytes(&view->row[i].sums))
			member[count++] = i;
	qsort_r(member, count, sizeof(*member), compare_rows, search);
	for (size_t i = 0; i < count; i++) {
		const bool is_next = i && !callers_compare(&search->key[view->row[member[i]].node],
						  &search->key[view->row[member[i - 1]].node]);
		if (!is_next)
			search->site[search->site_count++].row = member + i;
		struct rows *site = &search->site[search->site_count - 1];
		site->count++;
		site->bytes += sums_outstanding_bytes(&view->row[member[i]].sums);
	}
	qsort(search->site, search->site_count, sizeof(*search->site), compare_sites);
	return NULL;
}

static struct ht_err *judge(struct search *search, struct rows rows, struct suspects_entry *ret)
{
	*ret = (struct suspects_entry){
		.first = (size_t)(rows.row - search->suspects->member), .judged = rows.count};
	struct ht_err *err = classify(search, rows, ret);
	ret->judged_bytes = sums_outstanding_bytes(&ret->sums);
	return err;
}

static bool is_growing(const struct suspects_entry *entry)
{
	return entry->suspect.class == SUSPECT_GROWING;
}

static void take(struct search *search, const struct suspects_entry *entry)
{
	struct suspects *suspects = search->suspects;
	suspects->entry[suspects->count++] = *entry;
	suspects->growing += is_growing(entry);
}

/* A site of which the first `growing` rows may grow, though the whole does not: one entry. */
static struct ht_err *judge_parted(
	struct search *search, struct rows rows, size_t growing, struct suspects_entry *ret)
{
	struct suspects_entry rest;
	struct ht_err *err = judge(search, (struct rows){rows.row, growing, 0}, ret);
	if (!err && is_growing(ret))
		err = judge(
			search, (struct rows){rows.row + growing, rows.count - growing, 0}, &rest);
	if (err || !is_growing(ret))
		return err;
	struct suspect *suspect = &ret->suspect;
	const size_t length = strlen(suspect->text);
	snprintf(suspect->text + length, sizeof(suspect->text) - length,
		" %zu of its %zu chains %s.", growing, rows.count, growing == 1 ? "grows" : "grow");
	if (suspect->oldest_ns < rest.suspect.oldest_ns)
		suspect->oldest_ns = rest.suspect.oldest_ns;
	ret->chains = rows.count;
	ret->others = rest.suspect;
	sums_add(&ret->sums, &rest.sums);
	return NULL;
}

/* Puts the rows that grow by themselves first; `looked_at` bounds how many are classified. */
static struct ht_err *part_growing(
	struct search *search, struct rows rows, size_t *looked_at, size_t *ret)
{
	uint32_t *row = search->suspects->member + (rows.row - search->suspects->member);
	*ret = 0;
	for (size_t i = 0; i < rows.count && *looked_at < SUSPECTS_LOOKED_AT; i++) {
		struct suspects_entry one = {0};
		const uint32_t at = row[i];
		struct ht_err *err = classify(search, (struct rows){&at, 1, 0}, &one);
		if (err)
			return err;
		++*looked_at;
		if (!is_growing(&one))
			continue;
		for (size_t k = i; k > *ret; k--)
			row[k] = row[k - 1];
		row[(*ret)++] = at;
	}
	return NULL;
}

/* Puts the large rows that do not grow by themselves last. The others may be too small to judge. */
static struct ht_err *part_large(struct search *search, struct rows rows, size_t *ret_others)
{
	uint32_t *row = search->suspects->member + (rows.row - search->suspects->member);
	size_t end = rows.count;
	for (size_t i = 0, seen = 0; seen < rows.count; seen++) {
		const uint32_t at = row[i];
		struct suspects_entry one = {0};
		if (sums_outstanding_bytes(&search->view->row[at].sums) < rows.bytes / LARGE_PART)
			break;
		struct ht_err *err = classify(search, (struct rows){&at, 1, 0}, &one);
		if (err)
			return err;
		if (is_growing(&one)) {
			i++;
			continue;
		}
		memmove(row + i, row + i + 1, (rows.count - i - 1) * sizeof(*row));
		row[rows.count - 1] = at;
		end--;
	}
	*ret_others = end;
	return NULL;
}

/* A growing site is judged by what is left of it without its innocent chains; a leak on one chain
 * is not to hide behind the others. */
static struct ht_err *judge_site(
	struct search *search, struct rows rows, size_t *looked_at, struct suspects_entry *ret)
{
	struct suspects_entry parted;
	size_t others, growing;
	struct ht_err *err = NULL;
	if (rows.count == 1)
		return judge(search, rows, ret);
	err = part_large(search, rows, &others);
	if (!err && others && others < rows.count) {
		err = judge_parted(search, rows, others, ret);
		if (err || is_growing(ret))
			return err;
	}
	if (!err)
		err = judge(search, rows, ret);
	if (err || is_growing(ret))
		return err;
	err = part_growing(search, rows, looked_at, &growing);
	if (err || !growing || growing == rows.count)
		return err;
	err = judge_parted(search, rows, growing, &parted);
	if (!err && is_growing(&parted))
		*ret = parted;
	return err;
}

struct ht_err *suspects_find(const struct view *view, struct suspects *ret)
{
	struct search search = {.view = view, .suspects = ret};
	size_t looked_at = 0;
	*ret = (struct suspects){0};
	struct ht_err *err = search_init(&search);
	for (size_t i = 0; !err && i < search.site_count && i < SUSPECTS_LOOKED_AT; i++) {
		struct suspects_entry entry;
		err = judge_site(&search, search.site[i], &looked_at, &entry);
		if (!err)
			take(&search, &entry);
	}
	search_deinit(&search);
	if (err) {
		suspects_deinit(ret);
		return err;
	}
	qsort(ret->entry, ret->count, sizeof(*ret->entry), compare_entries);
	if (ret->count > SUSPECTS_MAX)
		ret->count = SUSPECTS_MAX;
	if (ret->growing > ret->count)
		ret->growing = ret->count;
	return NULL;
}

const struct suspect *suspects_row_suspect(const struct suspects_entry *entry, size_t row)
{
	return row < entry->judged ? &entry->suspect : &entry->others;
}

struct ht_err *suspects_classes(
	const struct view *view, const struct suspects *suspects, enum suspect_class **ret)
{
	*ret = malloc((view->row_count + 1) * sizeof(**ret));
	if (!*ret)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for %zu stacks", view->row_count);
	for (size_t i = 0; i < view->row_count; i++)
		(*ret)[i] = SUSPECT_CLASS_COUNT;
	for (size_t i = 0; i < suspects->count; i++) {
		const struct suspects_entry *entry = &suspects->entry[i];
		for (size_t k = 0; k < entry->chains; k++)
			(*ret)[suspects->member[entry->first + k]] =
				suspects_row_suspect(entry, k)->class;
	}
	return NULL;
}

struct ht_err *suspects_of_class(const struct suspects *suspects, enum suspect_class of_class,
	struct suspects_entry **ret, size_t *ret_count)
{
	*ret_count = 0;
	*ret = calloc(suspects->count + 1, sizeof(**ret));
	if (!*ret)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for suspects");
	for (size_t i = 0; i < suspects->count; i++)
		if (of_class == SUSPECT_CLASS_COUNT || suspects->entry[i].suspect.class == of_class)
			(*ret)[(*ret_count)++] = suspects->entry[i];
	return NULL;
}
