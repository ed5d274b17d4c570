/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/views/suspects.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/views/callers.h"
#include "analyzer/views/parts.h"
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

/* A program that is idle at the end of the window has not stopped leaking: leaves out the last
 * buckets if nothing is allocated in them, up to a fifth of the window. */
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

#define LARGE_PART 16u /* a chain with at least 1/16 of a site's bytes is judged by itself */

/* The rows of one site, the largest first. */
struct rows {
	uint32_t *row;
	size_t count;
	uint64_t bytes; /* held bytes of these rows (view_held_bytes) */
};

struct search {
	const struct view *view;
	struct suspects *suspects;
	struct callers_key *key; /* by node */
	struct rows *site;	 /* rows with equal key; `row` points into suspects->member */
	size_t site_count;
	uint32_t buckets;
	struct window_series *series;
	uint32_t *cube_site; /* sites of the rows being examined */
	uint64_t work_blocks[TIMELINE_STEPS];
};

/* Sites of the cube, and their sums. */
struct sites {
	const uint32_t *site;
	size_t count;
	struct sums sums;
};

/* Whether most outstanding bytes were freed after the window, later in the trace. */
static bool are_freed_later(const struct view *view, const struct sites *part)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < part->count; i++)
		bytes += window_freed_later(&view->analysis->cube, view->window, part->site[i]);
	return bytes > sums_outstanding_bytes(&part->sums) / 2;
}

/* The age of the oldest live block at the end of the window, pauses included. Too high by a bucket
 * at most; no block of the window is older than the window. */
static uint64_t oldest_of(const struct view *view, const struct window_series *series)
{
	const uint32_t count = view->window.to - view->window.from;
	uint32_t at = 0;
	while (at < count && !series->surviving_blocks[at])
		at++;
	const uint64_t birth_ns = (uint64_t)(view->window.from + at) * view->analysis->cube.step_ns;
	if (at == count)
		return 0;
	return view->to_ns - (birth_ns > view->from_ns ? birth_ns : view->from_ns);
}

/* Length of the part of the window after its first `buckets` buckets. */
static uint64_t idle_ns(const struct view *view, uint32_t buckets)
{
	const uint64_t end_ns =
		(uint64_t)(view->window.from + buckets) * view->analysis->cube.step_ns;
	return view->to_ns > end_ns ? view->to_ns - end_ns : 0;
}

/* The program's work by bucket of allocation: blocks of all sites, regardless of the query, that
 * were freed again. */
static void find_work(struct search *search)
{
	const struct view *view = search->view;
	const struct cube *cube = &view->analysis->cube;
	struct window_series *series = search->series;
	for (uint32_t i = 0; i < cube->site_count; i++)
		search->cube_site[i] = i;
	window_series(cube, view->window, search->cube_site, cube->site_count, series);
	pauses_cut(view, search->buckets, series);
	for (uint32_t i = 0; i < search->buckets; i++)
		search->work_blocks[i] = series->allocated_blocks[i] - series->surviving_blocks[i];
}

/* Also stores the part's series in search->series. */
static void classify_part(struct search *search, const struct sites *part, struct suspect *ret)
{
	const struct view *view = search->view;
	struct window_series *series = search->series;
	uint32_t buckets = search->buckets;
	window_series(&view->analysis->cube, view->window, part->site, part->count, series);
	const uint64_t oldest_ns = oldest_of(view, series);
	const uint64_t behind_ns = idle_ns(view, buckets);
	buckets = pauses_cut(view, buckets, series);
	const uint64_t paused_ns =
		pauses_within(&view->analysis->model, view->from_ns, view->to_ns).sum_ns;
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
		.freed_total_blocks = part->sums.frees,
		.lifetime_ns_total = part->sums.lifetime_us * 1000,
		.lifetime_max_ns = series->longest_ns,
		.older_freed_blocks = series->older_freed_blocks,
		.work_blocks = search->work_blocks,
		.idle_ns = behind_ns,
		.settle_ns =
			view_is_settled(view) ? model_settle_ns(&view->analysis->model.settle) : 0,
		.is_sample = view->analysis->cube.sample_bytes != 0,
		.window_ns = view->to_ns - view->from_ns - paused_ns,
		.paused_ns = paused_ns,
	};
	suspect_classify(&input, ret);
	ret->oldest_ns = oldest_ns ? oldest_ns + input.settle_ns : 0;
	if (ret->class == SUSPECT_GROWING && are_freed_later(view, part)) {
		ret->class = SUSPECT_UNCLEAR;
		ret->slope_bytes_per_s = 0;
		snprintf(ret->text, sizeof(ret->text), "%s",
			view_is_settled(view) ? "Unclear: most of these blocks were freed soon "
						"after the window."
					      : "Unclear: most of these blocks are freed after "
						"this part of the trace.");
	}
	if (view_is_settled(view) && ret->class == SUSPECT_UNCLEAR)
		suspect_survives(view_held_blocks(view, &part->sums),
			sums_outstanding_blocks(&part->sums),
			model_settle_ns(&view->analysis->model.settle), ret);
}

static struct sites part_of(struct search *search, struct rows rows)
{
	const struct view *view = search->view;
	struct sites part = {.site = search->cube_site};
	for (size_t i = 0; i < rows.count; i++) {
		const struct row *row = &view->row[rows.row[i]];
		memcpy(search->cube_site + part.count, view->row_site + row->first,
			row->count * sizeof(*search->cube_site));
		part.count += row->count;
		sums_add(&part.sums, &row->sums);
	}
	return part;
}

static void classify(struct search *search, struct rows rows, struct suspects_entry *ret)
{
	const struct view *view = search->view;
	const struct sites part = part_of(search, rows);
	ret->row = rows.row[0];
	ret->chains = rows.count;
	ret->sums = part.sums;
	for (size_t i = 0; i < rows.count; i++)
		if (view_held_bytes(view, &view->row[rows.row[i]].sums) >
			view_held_bytes(view, &view->row[ret->row].sums))
			ret->row = rows.row[i];
	classify_part(search, &part, &ret->suspect);
}

static double weight(const struct suspect *suspect)
{
	return suspect->confidence *
	       (suspect->slope_bytes_per_s > 0 ? suspect->slope_bytes_per_s : 0);
}

/* Growing sites come first, then survivors. */
static unsigned rank_of(enum suspect_class class)
{
	return class == SUSPECT_GROWING ? 0 : class == SUSPECT_SURVIVOR ? 1 : 2;
}

static int compare_entries(const void *a, const void *b)
{
	const struct suspects_entry *x = a, *y = b;
	const unsigned rank_x = rank_of(x->suspect.class), rank_y = rank_of(y->suspect.class);
	if (rank_x != rank_y)
		return rank_x < rank_y ? -1 : 1;
	if (rank_x == 0 && weight(&x->suspect) != weight(&y->suspect))
		return weight(&x->suspect) > weight(&y->suspect) ? -1 : 1;
	if (x->held_bytes != y->held_bytes)
		return x->held_bytes > y->held_bytes ? -1 : 1;
	return (x->row > y->row) - (x->row < y->row);
}

/* --- sites -------------------------------------------------------------------------------------
 */

static void search_deinit(struct search *search)
{
	free(search->key);
	free(search->site);
	free(search->series);
	free(search->cube_site);
}

static int compare_rows(const void *a, const void *b, void *context)
{
	const struct search *search = context;
	const struct row *x = &search->view->row[*(const uint32_t *)a];
	const struct row *y = &search->view->row[*(const uint32_t *)b];
	const int order = callers_compare(&search->key[x->node], &search->key[y->node]);
	const uint64_t bx = view_held_bytes(search->view, &x->sums);
	const uint64_t by = view_held_bytes(search->view, &y->sums);
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
	search->cube_site =
		malloc((view->analysis->cube.site_count + 1) * sizeof(*search->cube_site));
	search->suspects->entry = calloc(SUSPECTS_LOOKED_AT, sizeof(*search->suspects->entry));
	search->buckets = busy_buckets(view);
	if (!member || !search->site || !search->series || !search->cube_site ||
		!search->suspects->entry)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for suspects");
	find_work(search);
	HT_TRY(callers_keys(view, &search->key));
	for (uint32_t i = 0; i < view->row_count; i++)
		if (view_held_bytes(view, &view->row[i].sums))
			member[count++] = i;
	qsort_r(member, count, sizeof(*member), compare_rows, search);
	for (size_t i = 0; i < count; i++) {
		const bool is_next = i && !callers_compare(&search->key[view->row[member[i]].node],
						  &search->key[view->row[member[i - 1]].node]);
		if (!is_next)
			search->site[search->site_count++].row = member + i;
		struct rows *site = &search->site[search->site_count - 1];
		site->count++;
		site->bytes += view_held_bytes(view, &view->row[member[i]].sums);
	}
	qsort(search->site, search->site_count, sizeof(*search->site), compare_sites);
	return NULL;
}

static void judge(struct search *search, struct rows rows, struct suspects_entry *ret)
{
	*ret = (struct suspects_entry){
		.first = (size_t)(rows.row - search->suspects->member), .judged = rows.count};
	classify(search, rows, ret);
	ret->held_bytes = ret->judged_bytes = view_held_bytes(search->view, &ret->sums);
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

/* Judges a site in two parts: the first `growing` rows, which may grow although the whole site does
 * not, and the rest. If the first part does not grow, `ret` is about that part alone. */
static void judge_parted(
	struct search *search, struct rows rows, size_t growing, struct suspects_entry *ret)
{
	struct suspects_entry rest;
	judge(search, (struct rows){rows.row, growing, 0}, ret);
	if (!is_growing(ret))
		return;
	judge(search, (struct rows){rows.row + growing, rows.count - growing, 0}, &rest);
	struct suspect *suspect = &ret->suspect;
	const size_t length = strlen(suspect->text);
	snprintf(suspect->text + length, sizeof(suspect->text) - length,
		" %zu of its %zu chains %s.", growing, rows.count, growing == 1 ? "grows" : "grow");
	if (suspect->oldest_ns < rest.suspect.oldest_ns)
		suspect->oldest_ns = rest.suspect.oldest_ns;
	ret->chains = rows.count;
	ret->others = rest.suspect;
	sums_add(&ret->sums, &rest.sums);
	ret->held_bytes += rest.held_bytes;
}

static bool grows_alone(struct search *search, uint32_t row)
{
	struct suspects_entry one = {0};
	classify(search, (struct rows){&row, 1, 0}, &one);
	return is_growing(&one);
}

/* Moves the rows that are classified as growing on their own to the front and returns their number.
 * `*looked_at` counts classified rows, at most SUSPECTS_LOOKED_AT. */
static size_t part_growing(struct search *search, struct rows rows, size_t *looked_at)
{
	uint32_t *row = rows.row;
	size_t growing = 0;
	for (size_t i = 0; i < rows.count && *looked_at < SUSPECTS_LOOKED_AT; i++) {
		const uint32_t at = row[i];
		++*looked_at;
		if (!grows_alone(search, at))
			continue;
		for (size_t k = i; k > growing; k--)
			row[k] = row[k - 1];
		row[growing++] = at;
	}
	return growing;
}

/* Moves the large rows that do not grow on their own to the end. Returns the number of other rows,
 * which may be too small to be judged alone. */
static size_t part_large(struct search *search, struct rows rows)
{
	uint32_t *row = rows.row;
	size_t end = rows.count;
	for (size_t i = 0, seen = 0; seen < rows.count; seen++) {
		const uint32_t at = row[i];
		if (view_held_bytes(search->view, &search->view->row[at].sums) <
			rows.bytes / LARGE_PART)
			break;
		if (grows_alone(search, at)) {
			i++;
			continue;
		}
		memmove(row + i, row + i + 1, (rows.count - i - 1) * sizeof(*row));
		row[rows.count - 1] = at;
		end--;
	}
	return end;
}

/* --- sizes -------------------------------------------------------------------------------------
 */

static int compare_sizes(const void *a, const void *b, void *context)
{
	const struct cube_site *site = context;
	const unsigned x = cube_site_size_class(&site[*(const uint32_t *)a]);
	const unsigned y = cube_site_size_class(&site[*(const uint32_t *)b]);
	return (x > y) - (x < y);
}

/* Sum of the ages of all blocks, freed or surviving, in seconds: the exposure by which a rate of
 * frees is computed. */
static double exposure_of(
	const struct search *search, const struct sites *part, const struct window_series *series)
{
	double seconds = (double)part->sums.lifetime_us / 1e6;
	for (uint32_t i = 0; i < search->buckets; i++)
		seconds += (double)series->surviving_blocks[i] * (search->buckets - i) *
			   (double)search->view->analysis->cube.step_ns / 1e9;
	return seconds;
}

#define SIZE_FREES_KNOWN    30 /* enough frees to know how long blocks of a size live */
#define SIZE_FREES_EXPECTED 8.0

/* Whether blocks of one size differ from the site's other blocks in how long they live: either
 * their own frees are enough to know it, or at most a quarter of the frees that the site's rate
 * predicts came. */
static bool lives_otherwise(
	const struct search *search, const struct sites *part, double frees_a_second)
{
	const double expected = frees_a_second * exposure_of(search, part, search->series);
	return part->sums.frees >= SIZE_FREES_KNOWN ||
	       (expected >= SIZE_FREES_EXPECTED && 4 * (double)part->sums.frees <= expected);
}

static void say_sizes(struct suspect *suspect, uint64_t least_bytes, uint64_t most_bytes)
{
	const size_t length = strlen(suspect->text);
	snprintf(suspect->text + length, sizeof(suspect->text) - length,
		" Only its blocks of %" PRIu64 " to %" PRIu64 " bytes grow.", least_bytes,
		most_bytes);
}

/* An interpreter allocates objects of all kinds at one place. Judge each size class alone, so that
 * churn in one class does not hide a leak in another. The finding of the most certain growing class
 * becomes that of the site. */
static void judge_sizes(
	struct search *search, struct rows rows, size_t *looked_at, struct suspects_entry *ret)
{
	const struct view *view = search->view;
	struct cube_site *site = view->analysis->cube.site;
	const struct sites all = part_of(search, rows);
	struct suspect best = {0};
	double slope = 0, exposure;
	unsigned least = CUBE_SIZE_CLASSES, most = 0;
	qsort_r(search->cube_site, all.count, sizeof(*search->cube_site), compare_sizes, site);
	if (!all.count || !compare_sizes(&all.site[0], &all.site[all.count - 1], site))
		return;
	window_series(&view->analysis->cube, view->window, all.site, all.count, search->series);
	exposure = exposure_of(search, &all, search->series);
	for (size_t from = 0, to; from < all.count && *looked_at < SUSPECTS_LOOKED_AT; from = to) {
		struct sites part = {.site = all.site + from};
		struct suspect one;
		for (to = from;
			to < all.count && !compare_sizes(&all.site[from], &all.site[to], site);
			to++)
			sums_add(&part.sums, &view->sums[all.site[to]]);
		part.count = to - from;
		if (!view_held_bytes(view, &part.sums))
			continue;
		++*looked_at;
		classify_part(search, &part, &one);
		if (one.class != SUSPECT_GROWING || exposure <= 0 ||
			!lives_otherwise(search, &part, (double)all.sums.frees / exposure))
			continue;
		const unsigned class = cube_site_size_class(&site[all.site[from]]);
		least = class < least ? class : least;
		most = class > most ? class : most;
		slope += one.slope_bytes_per_s;
		if (one.confidence > best.confidence)
			best = one;
	}
	if (best.class != SUSPECT_GROWING || best.confidence <= 0)
		return;
	best.oldest_ns = ret->suspect.oldest_ns;
	ret->suspect = best;
	ret->suspect.slope_bytes_per_s = slope;
	say_sizes(&ret->suspect, parts_size_from(least), parts_size_to(most));
}

/* Judges a site without its large harmless chains, then as a whole, then its growing chains, then
 * by sizes, until growth is found: harmless chains or sizes must not hide a leak. */
static void judge_site(
	struct search *search, struct rows rows, size_t *looked_at, struct suspects_entry *ret)
{
	if (rows.count > 1) {
		const size_t others = part_large(search, rows);
		*ret = (struct suspects_entry){0};
		ret->suspect.class = SUSPECT_UNCLEAR;
		if (others && others < rows.count)
			judge_parted(search, rows, others, ret);
		if (is_growing(ret))
			return;
	}
	judge(search, rows, ret);
	if (is_growing(ret))
		return;
	const size_t growing = rows.count > 1 ? part_growing(search, rows, looked_at) : 0;
	if (growing && growing < rows.count) {
		struct suspects_entry parted;
		judge_parted(search, rows, growing, &parted);
		if (is_growing(&parted))
			*ret = parted;
	}
	if (!is_growing(ret))
		judge_sizes(search, rows, looked_at, ret);
}

struct ht_err *suspects_find(const struct view *view, struct suspects *ret)
{
	struct search search = {.view = view, .suspects = ret};
	size_t looked_at = 0;
	*ret = (struct suspects){0};
	struct ht_err *err = search_init(&search);
	for (size_t i = 0; !err && i < search.site_count && i < SUSPECTS_LOOKED_AT; i++) {
		struct suspects_entry entry;
		judge_site(&search, search.site[i], &looked_at, &entry);
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
