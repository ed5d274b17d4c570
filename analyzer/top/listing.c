/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/top/listing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/model/strings.h"

#define NS_PER_S      1e9
#define NS_PER_MINUTE 60e9
/* not STRINGS_HASH: a function never has the id of a site */
#define FUNCTION_HASH 0x84222325cbf29ce4ull

const char *const listing_sort_names[LISTING_SORTS + 1] = {
	"growth", "outstanding", "per-minute", "allocated", "calls", "temporary", "age", NULL};

/* An earlier snapshot with its rows sorted by id. */
struct earlier {
	const struct snapshot *snapshot; /* NULL: the beginning, when all was 0 */
	const struct snapshot_row **row;
	double span_s; /* time from that snapshot to now */
};

struct making {
	const struct snapshot *now;
	const struct listing_options *options;
	struct earlier before, baseline;
	bool has_baseline;
	struct listing *listing;
	size_t capacity;
};

/* --- earlier snapshots ----------------------------------------------------------------------- */

static int compare_ids(const void *a, const void *b)
{
	const uint64_t x = (*(const struct snapshot_row *const *)a)->id,
		       y = (*(const struct snapshot_row *const *)b)->id;
	return (x > y) - (x < y);
}

static bool index_earlier(
	struct earlier *earlier, const struct snapshot *then, const struct snapshot *now)
{
	const uint64_t then_ns = then ? then->figures.time_ns : 0;
	earlier->snapshot = then;
	earlier->span_s = (double)(now->figures.time_ns - then_ns) / NS_PER_S;
	if (now->figures.time_ns <= then_ns)
		earlier->span_s = 0;
	if (!then)
		return true;
	earlier->row = malloc((then->row_count + 1) * sizeof(const struct snapshot_row *));
	if (!earlier->row)
		return false;
	for (uint32_t i = 0; i < then->row_count; i++)
		earlier->row[i] = &then->row[i];
	qsort(earlier->row, then->row_count, sizeof(const struct snapshot_row *), compare_ids);
	return true;
}

static struct snapshot_sums sums_then(const struct earlier *earlier, const struct snapshot_row *row)
{
	const struct snapshot_row *const *found =
		earlier->row ? bsearch(&row, earlier->row, earlier->snapshot->row_count,
				       sizeof(const struct snapshot_row *), compare_ids)
			     : NULL;
	return found ? (*found)->sums : (struct snapshot_sums){0};
}

/* --- figures --------------------------------------------------------------------------------- */

/* now - then, or 0. A sum can be less than before only if names changed in between, so that blocks
 * moved to another site. */
static uint64_t less(uint64_t now, uint64_t then)
{
	return now > then ? now - then : 0;
}

static double rate(uint64_t now, uint64_t then, double span_s)
{
	return span_s > 0 ? (double)less(now, then) / span_s : 0;
}

static struct listing_figures figures_of(const struct making *making,
	const struct snapshot_sums *now, const struct snapshot_sums *before,
	const struct snapshot_sums *baseline)
{
	struct listing_figures ret = {
		.outstanding_bytes = (int64_t)now->outstanding_bytes,
		.outstanding_bound_bytes = (double)now->outstanding_bound_bytes,
		.per_minute_bytes = now->per_minute_bytes,
		.bytes_per_s =
			rate(now->allocated_bytes, before->allocated_bytes, making->before.span_s),
		.calls_per_s = rate(now->allocations, before->allocations, making->before.span_s),
		.temporary = now->temporary,
		.allocations = now->allocations,
	};
	if (!making->has_baseline)
		return ret;
	const double span_s = making->baseline.span_s;
	ret.outstanding_bytes -= (int64_t)baseline->outstanding_bytes;
	/* The errors of blocks that both sums contain cancel out, so this is the most. */
	ret.outstanding_bound_bytes =
		hypot(ret.outstanding_bound_bytes, (double)baseline->outstanding_bound_bytes);
	ret.per_minute_bytes =
		span_s > 0 ? (int64_t)((double)ret.outstanding_bytes * 60 / span_s) : 0;
	ret.bytes_per_s = rate(now->allocated_bytes, baseline->allocated_bytes, span_s);
	ret.calls_per_s = rate(now->allocations, baseline->allocations, span_s);
	ret.temporary = less(now->temporary, baseline->temporary);
	ret.allocations = less(now->allocations, baseline->allocations);
	return ret;
}

static void add_figures(struct listing_figures *sum, const struct listing_figures *more)
{
	sum->outstanding_bytes += more->outstanding_bytes;
	/* Sites are sampled independently. */
	sum->outstanding_bound_bytes =
		hypot(sum->outstanding_bound_bytes, more->outstanding_bound_bytes);
	sum->per_minute_bytes += more->per_minute_bytes;
	sum->bytes_per_s += more->bytes_per_s;
	sum->calls_per_s += more->calls_per_s;
	sum->temporary += more->temporary;
	sum->allocations += more->allocations;
	if (more->oldest_ns > sum->oldest_ns)
		sum->oldest_ns = more->oldest_ns;
}

static struct listing_row site_row(const struct making *making, const struct snapshot_row *site)
{
	const struct snapshot_sums before = sums_then(&making->before, site),
				   baseline = sums_then(&making->baseline, site);
	struct listing_row ret = {
		.kind = LISTING_SITE,
		.id = site->id,
		.site = site,
		.sites = 1,
		.is_growing = site->is_growing,
		.figures = figures_of(making, &site->sums, &before, &baseline),
		.trend_count = site->trend_count,
	};
	ret.figures.oldest_ns = site->oldest_ns;
	memcpy(ret.trend, site->trend, sizeof(ret.trend));
	return ret;
}

/* --- which rows ------------------------------------------------------------------------------ */

static bool has_word(const struct making *making, uint32_t text, const char *word)
{
	return strcasestr(snapshot_function(making->now, text), word) ||
	       strcasestr(snapshot_place(making->now, text), word);
}

static bool is_wanted(const struct making *making, const struct snapshot_row *row)
{
	const char *word = making->options->filter;
	if (!word || !*word)
		return true;
	for (uint32_t i = 0; i < row->frame_count; i++)
		if (has_word(making, snapshot_frame(making->now, row, i), word))
			return true;
	return has_word(making, row->function, word);
}

static bool is_open(const struct making *making, uint64_t id)
{
	for (size_t i = 0; i < making->options->open_count; i++)
		if (making->options->open[i] == id)
			return true;
	return false;
}

/* --- order ----------------------------------------------------------------------------------- */

static double share_of(const struct listing_figures *figures)
{
	return figures->allocations ? (double)figures->temporary / (double)figures->allocations : 0;
}

static double key_of(const struct making *making, const struct listing_row *row)
{
	switch (making->options->sort) {
	case LISTING_GROWTH:
		/* Without a baseline, growing sites come before all others. */
		if (row->is_growing && !making->has_baseline)
			return 1e300;
		return (double)row->figures.outstanding_bytes;
	case LISTING_OUTSTANDING:
		return (double)row->figures.outstanding_bytes;
	case LISTING_PER_MINUTE:
		return (double)row->figures.per_minute_bytes;
	case LISTING_ALLOCATED:
		return row->figures.bytes_per_s;
	case LISTING_CALLS:
		return row->figures.calls_per_s;
	case LISTING_TEMPORARY:
		return share_of(&row->figures);
	case LISTING_AGE:
		return (double)row->figures.oldest_ns;
	case LISTING_SORTS:
		break;
	}
	return 0;
}

static int compare_doubles(double x, double y)
{
	return (x < y) - (x > y);
}

static int compare_rows(const void *a, const void *b, void *context)
{
	const struct listing_row *x = a, *y = b;
	const struct making *making = context;
	int order = compare_doubles(key_of(making, x), key_of(making, y));
	if (!order && making->options->sort == LISTING_GROWTH)
		order = compare_doubles(x->site->slope_bytes_per_s, y->site->slope_bytes_per_s);
	if (!order)
		order = compare_doubles(
			(double)x->figures.outstanding_bytes, (double)y->figures.outstanding_bytes);
	if (!order)
		order = compare_doubles(
			(double)x->figures.allocations, (double)y->figures.allocations);
	return order ? order : (x->id > y->id) - (x->id < y->id);
}

/* --- by function ----------------------------------------------------------------------------- */

static int compare_functions(const void *a, const void *b, void *context)
{
	const struct listing_row *x = a, *y = b;
	const struct snapshot *now = context;
	const int order = strcmp(snapshot_function(now, x->site->function),
		snapshot_function(now, y->site->function));
	return order ? order : (x->id > y->id) - (x->id < y->id);
}

static void add_site(struct listing_row *function, const struct listing_row *site)
{
	if (site->site->sums.outstanding_bytes > function->site->sums.outstanding_bytes)
		function->site = site->site;
	add_figures(&function->figures, &site->figures);
	function->is_growing |= site->is_growing;
	function->sites++;
	for (uint32_t i = 0; i < site->trend_count; i++)
		function->trend[i] += site->trend[i];
}

/* Joins the sites of each function in `row`; returns the number of functions. */
static size_t join_functions(const struct snapshot *now, struct listing_row *row, size_t count)
{
	size_t functions = 0;
	qsort_r(row, count, sizeof(*row), compare_functions, (void *)(uintptr_t)now);
	for (size_t i = 0; i < count; i++) {
		const char *name = snapshot_function(now, row[i].site->function);
		struct listing_row *last = functions ? &row[functions - 1] : NULL;
		if (last && strcmp(snapshot_function(now, last->site->function), name) == 0) {
			add_site(last, &row[i]);
			continue;
		}
		row[functions] = row[i];
		row[functions].kind = LISTING_FUNCTION;
		row[functions++].id = strings_hash(FUNCTION_HASH, name, strlen(name));
	}
	return functions;
}

/* --- the table ------------------------------------------------------------------------------- */

static struct ht_err *put(struct making *making, const struct listing_row *row)
{
	struct listing *listing = making->listing;
	if (listing->count == making->capacity) {
		const size_t more = making->capacity ? 2 * making->capacity : 64;
		struct listing_row *grown = realloc(listing->row, more * sizeof(*grown));
		if (!grown)
			return ht_err_new(HT_ERR_NOMEM, "out of memory for the table");
		listing->row = grown;
		making->capacity = more;
	}
	listing->row[listing->count++] = *row;
	return NULL;
}

static struct ht_err *put_chain(struct making *making, const struct listing_row *of)
{
	struct ht_err *err = NULL;
	struct listing_row row = {.kind = LISTING_FRAME, .depth = of->depth + 1, .site = of->site};
	for (uint32_t i = 0; i < of->site->frame_count && !err; i++) {
		row.frame = snapshot_frame(making->now, of->site, i);
		row.id = of->id + i + 1;
		err = put(making, &row);
	}
	row.kind = LISTING_NOTE;
	row.id = of->id + SNAPSHOT_FRAMES_MAX + 1;
	return err || of->site->chains < 2 ? err : put(making, &row);
}

static struct ht_err *put_with_chain(struct making *making, struct listing_row *row)
{
	row->is_open = is_open(making, row->id);
	struct ht_err *err = put(making, row);
	return err || !row->is_open ? err : put_chain(making, row);
}

/* Adds a function and, if it is open, its sites, which are among `site`. */
static struct ht_err *put_function(struct making *making, struct listing_row *function,
	const struct listing_row *site, size_t count)
{
	const char *name = snapshot_function(making->now, function->site->function);
	function->is_open = is_open(making, function->id);
	struct ht_err *err = put(making, function);
	for (size_t i = 0; i < count && function->is_open && !err; i++) {
		struct listing_row row = site[i];
		row.depth = 1;
		if (strcmp(snapshot_function(making->now, row.site->function), name) == 0)
			err = put_with_chain(making, &row);
	}
	return err;
}

static struct ht_err *put_functions(
	struct making *making, const struct listing_row *site, size_t count)
{
	struct listing_row *function = malloc((count + 1) * sizeof(*function));
	struct ht_err *err = NULL;
	if (!function)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for the table");
	memcpy(function, site, count * sizeof(*function));
	const size_t functions = join_functions(making->now, function, count);
	qsort_r(function, functions, sizeof(*function), compare_rows, making);
	for (size_t i = 0; i < functions && !err; i++)
		err = put_function(making, &function[i], site, count);
	free(function);
	return err;
}

static struct ht_err *put_all(struct making *making)
{
	const struct snapshot *now = making->now;
	struct listing_row *site = malloc((now->row_count + 1) * sizeof(*site));
	struct ht_err *err = NULL;
	size_t count = 0;
	if (!site)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for the table");
	for (uint32_t i = 0; i < now->row_count; i++)
		if (is_wanted(making, &now->row[i]))
			site[count++] = site_row(making, &now->row[i]);
	qsort_r(site, count, sizeof(*site), compare_rows, making);
	if (making->options->is_by_function)
		err = put_functions(making, site, count);
	for (size_t i = 0; i < count && !making->options->is_by_function && !err; i++)
		err = put_with_chain(making, &site[i]);
	free(site);
	return err;
}

static void add_up(struct making *making)
{
	static const struct snapshot_sums none;
	const struct snapshot *before = making->before.snapshot;
	const struct snapshot *baseline = making->baseline.snapshot;
	making->listing->total = figures_of(making, &making->now->figures.sums,
		before ? &before->figures.sums : &none, baseline ? &baseline->figures.sums : &none);
	making->listing->span_s =
		making->has_baseline ? making->baseline.span_s : making->before.span_s;
}

struct ht_err *listing_make(const struct snapshot *now, const struct snapshot *before,
	const struct snapshot *baseline, const struct listing_options *options, struct listing *ret)
{
	struct making making = {
		.now = now, .options = options, .has_baseline = baseline, .listing = ret};
	struct ht_err *err = NULL;
	*ret = (struct listing){0};
	if (!index_earlier(&making.before, before, now) ||
		!index_earlier(&making.baseline, baseline, now))
		err = ht_err_new(HT_ERR_NOMEM, "out of memory for the table");
	HT_THEN(err, put_all(&making));
	if (!err)
		add_up(&making);
	free(making.before.row);
	free(making.baseline.row);
	return err;
}

void listing_deinit(struct listing *listing)
{
	free(listing->row);
	*listing = (struct listing){0};
}
