/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of the live table: their order, their figures, which of them are there, what is open.
 */
#include "analyzer/top/listing.h"

#include "tests/unit/analyzer/toptable.h"

#define SITES 4u

static struct toptable now, before, baseline;
static struct listing listing;

static void make(const struct snapshot *then, const struct snapshot *since,
	const struct listing_options *options)
{
	ck_no_err(listing_make(&now.snapshot, then, since, options, &listing));
}

/* Returns the names of the rows in their order, "a b c": of a frame its function, "+" for a note;
 * '.' before a name for each level. The text is valid until the next call. */
static const char *names(void)
{
	static char text[1024];
	size_t length = 0;
	text[0] = '\0';
	for (size_t i = 0; i < listing.count; i++) {
		const struct listing_row *row = &listing.row[i];
		const uint32_t name = row->kind == LISTING_FRAME ? row->frame : row->site->function;
		length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%.*s%s",
			i ? " " : "", (int)row->depth, "...",
			row->kind == LISTING_NOTE ? "+" : snapshot_function(&now.snapshot, name));
	}
	return text;
}

/* --- order ----------------------------------------------------------------------------------- */

/* Four sites, of which each column has another order. */
static void make_sites(void)
{
	static const char *const name[SITES] = {"a", "b", "c", "d"};
	static const struct {
		uint64_t outstanding, allocated, calls, temporary, age_s;
		int64_t per_minute;
		double slope;
	} is[SITES] = {{400, 1010, 103, 10, 1, 0, 0}, {300, 1040, 101, 90, 4, 50, 0},
		{200, 1030, 102, 50, 3, -20, 9}, {100, 1020, 104, 0, 9, 10, 5}};
	toptable_begin(&before, 8);
	toptable_begin(&now, 10);
	for (size_t i = 0; i < SITES; i++) {
		struct snapshot_row *then = toptable_site(&before, i + 1, name[i], NULL, 100);
		then->sums.allocated_bytes = 1000;
		then->sums.allocations = 100;
		struct snapshot_row *row =
			toptable_site(&now, i + 1, name[i], NULL, is[i].outstanding);
		row->sums.allocated_bytes = is[i].allocated;
		row->sums.allocations = is[i].calls;
		row->sums.temporary = is[i].temporary;
		row->sums.per_minute_bytes = is[i].per_minute;
		row->oldest_ns = is[i].age_s * TOPTABLE_NS;
		row->slope_bytes_per_s = is[i].slope;
		row->is_growing = is[i].slope > 0;
	}
}

HT_TEST(each_column_sorts_by_its_figure_largest_first)
{
	static const char *const want[LISTING_SORTS] = {
		[LISTING_GROWTH] = "c d a b",
		[LISTING_OUTSTANDING] = "a b c d",
		[LISTING_PER_MINUTE] = "b d a c",
		[LISTING_ALLOCATED] = "b c d a",
		[LISTING_CALLS] = "d a c b",
		[LISTING_TEMPORARY] = "b c a d",
		[LISTING_AGE] = "d b c a",
	};
	make_sites();
	for (unsigned i = 0; i < LISTING_SORTS; i++) {
		const struct listing_options options = {.sort = (enum listing_sort)i};
		make(&before.snapshot, NULL, &options);
		ck_assert_msg(
			strcmp(names(), want[i]) == 0, "%s: %s", listing_sort_names[i], names());
		listing_deinit(&listing);
	}
	ck_assert_ptr_null(listing_sort_names[LISTING_SORTS]);
}

HT_TEST(equal_rows_are_ordered_by_bytes_then_calls_then_id)
{
	const struct listing_options options = {.sort = LISTING_AGE};
	toptable_begin(&now, 10);
	toptable_site(&now, 9, "last", NULL, 5);
	toptable_site(&now, 8, "third", NULL, 5);
	toptable_site(&now, 7, "second", NULL, 5)->sums.allocations = 2;
	toptable_site(&now, 6, "first", NULL, 6);
	make(NULL, NULL, &options);
	ck_assert_str_eq(names(), "first second third last");
	listing_deinit(&listing);
}

/* --- figures --------------------------------------------------------------------------------- */

HT_TEST(rates_count_from_the_snapshot_before)
{
	const struct listing_options options = {.sort = LISTING_OUTSTANDING};
	make_sites();
	now.snapshot.figures.sums.allocated_bytes = 5000;
	before.snapshot.figures.sums.allocated_bytes = 4000;
	make(&before.snapshot, NULL, &options);
	ck_assert_double_eq(listing.row[1].figures.bytes_per_s, 20);
	ck_assert_double_eq(listing.row[1].figures.calls_per_s, 0.5);
	ck_assert_int_eq(listing.row[1].figures.outstanding_bytes, 300);
	ck_assert_int_eq(listing.row[1].figures.per_minute_bytes, 50);
	ck_assert_double_eq(listing.total.bytes_per_s, 500);
	ck_assert_int_eq(listing.total.outstanding_bytes, 1000);
	ck_assert_double_eq(listing.span_s, 2);
	listing_deinit(&listing);
	/* Without an earlier snapshot, rates count from the beginning. */
	make(NULL, NULL, &options);
	ck_assert_double_eq(listing.row[1].figures.bytes_per_s, 104);
	ck_assert_double_eq(listing.total.bytes_per_s, 500);
	ck_assert_double_eq(listing.span_s, 10);
	listing_deinit(&listing);
}

HT_TEST(rates_are_never_negative_or_of_no_time)
{
	const struct listing_options options = {.sort = LISTING_OUTSTANDING};
	make_sites();
	/* The earlier snapshot had more in this row, because the site's name has changed since. */
	before.row[1].sums.allocated_bytes = 2000;
	make(&before.snapshot, NULL, &options);
	ck_assert_double_eq(listing.row[1].figures.bytes_per_s, 0);
	listing_deinit(&listing);
	before.snapshot.figures.time_ns = now.snapshot.figures.time_ns;
	make(&before.snapshot, NULL, &options);
	ck_assert_double_eq(listing.row[0].figures.bytes_per_s, 0);
	ck_assert_double_eq(listing.span_s, 0);
	listing_deinit(&listing);
}

HT_TEST(a_site_that_is_new_counts_from_nothing)
{
	const struct listing_options options = {.sort = LISTING_OUTSTANDING};
	make_sites();
	toptable_site(&now, 99, "new", NULL, 1000)->sums.allocated_bytes = 60;
	make(&before.snapshot, NULL, &options);
	ck_assert_str_eq(names(), "new a b c d");
	ck_assert_double_eq(listing.row[0].figures.bytes_per_s, 30);
	listing_deinit(&listing);
}

HT_TEST(a_baseline_is_subtracted_from_all_figures)
{
	const struct listing_options options = {.sort = LISTING_GROWTH};
	make_sites();
	toptable_begin(&baseline, 4);
	struct snapshot_row *then = toptable_site(&baseline, 1, "a", NULL, 1000);
	then->sums.allocated_bytes = 410;
	then->sums.allocations = 100;
	then->sums.temporary = 4;
	now.row[0].sums.outstanding_bound_bytes = 30;
	then->sums.outstanding_bound_bytes = 40;
	make(&before.snapshot, &baseline.snapshot, &options);
	/* The order is by the change, most growth first; a has become less. */
	ck_assert_str_eq(names(), "b c d a");
	const struct listing_figures *of = &listing.row[3].figures;
	ck_assert_int_eq(of->outstanding_bytes, -600);
	ck_assert_double_eq(of->outstanding_bound_bytes, 50);
	ck_assert_int_eq(of->per_minute_bytes, -6000);
	ck_assert_double_eq(of->bytes_per_s, 100);
	ck_assert_double_eq(of->calls_per_s, 0.5);
	ck_assert_uint_eq(of->temporary, 6);
	ck_assert_uint_eq(of->allocations, 3);
	/* The earlier snapshot has no other sites. */
	ck_assert_int_eq(listing.row[0].figures.outstanding_bytes, 300);
	ck_assert_int_eq(listing.total.outstanding_bytes, 0);
	ck_assert_double_eq(listing.span_s, 6);
	listing_deinit(&listing);
}

HT_TEST(without_rows_there_are_totals)
{
	const struct listing_options options = {.sort = LISTING_GROWTH};
	toptable_begin(&now, 10);
	now.snapshot.figures.sums.allocations = 30;
	make(NULL, NULL, &options);
	ck_assert_uint_eq(listing.count, 0);
	ck_assert_uint_eq(listing.total.allocations, 30);
	ck_assert_double_eq(listing.total.calls_per_s, 3);
	listing_deinit(&listing);
}

/* --- filter ---------------------------------------------------------------------------------- */

static void check_filter(const char *filter, const char *want)
{
	const struct listing_options options = {.sort = LISTING_OUTSTANDING, .filter = filter};
	make(NULL, NULL, &options);
	ck_assert_msg(strcmp(names(), want) == 0, "%s: %s", filter, names());
	ck_assert_int_eq(listing.total.outstanding_bytes, 600);
	listing_deinit(&listing);
}

HT_TEST(a_filter_is_a_part_of_any_name_in_the_chain)
{
	toptable_begin(&now, 10);
	toptable_site(&now, 1, "Alpha", NULL, 300);
	toptable_frame(&now, "Alpha", "one.c:1");
	toptable_frame(&now, "middle", "two.c:2");
	toptable_frame(&now, "main", "libmain.so");
	toptable_site(&now, 2, "beta", NULL, 200);
	toptable_frame(&now, "beta", "one.c:9");
	/* The function is outside of the chain, which begins at a wrapper. */
	toptable_site(&now, 3, "gamma", NULL, 100);
	toptable_frame(&now, "operator new", "");
	check_filter(NULL, "Alpha beta gamma");
	check_filter("", "Alpha beta gamma");
	check_filter("alpHA", "Alpha");
	check_filter("MAIN", "Alpha");
	check_filter("one.c", "Alpha beta");
	check_filter("LibMain.so", "Alpha");
	check_filter("gam", "gamma");
	check_filter("new", "gamma");
	check_filter("nowhere", "");
}

/* --- what is open ---------------------------------------------------------------------------- */

/* Two sites of alloc, with 300 and 500 bytes, and one of other. */
static void make_functions(void)
{
	toptable_begin(&now, 10);
	struct snapshot_row *row = toptable_site(&now, 100, "alloc", "small", 300);
	row->sums.allocations = 7;
	row->oldest_ns = 9;
	row->is_growing = true;
	row->trend_count = 2;
	row->trend[1] = 30;
	toptable_frame(&now, "malloc", "");
	toptable_frame(&now, "alloc", "a.c:1");
	row = toptable_site(&now, 200, "other", "main", 600);
	toptable_frame(&now, "other", "");
	row = toptable_site(&now, 300, "alloc", "large", 500);
	row->sums.allocations = 5;
	row->oldest_ns = 4;
	row->chains = 3;
	row->trend_count = 2;
	row->trend[1] = 50;
	toptable_frame(&now, "alloc", "a.c:2");
}

static void check_open(bool is_by_function, const uint64_t *open, size_t count, const char *want)
{
	const struct listing_options options = {.sort = LISTING_OUTSTANDING,
		.is_by_function = is_by_function,
		.open = open,
		.open_count = count};
	make(NULL, NULL, &options);
	ck_assert_msg(strcmp(names(), want) == 0, "%s", names());
}

HT_TEST(an_open_site_shows_its_chain)
{
	const uint64_t one[] = {100}, both[] = {300, 100};
	make_functions();
	check_open(false, one, 1, "other alloc alloc .malloc .alloc");
	ck_assert(listing.row[2].is_open && !listing.row[1].is_open);
	ck_assert_int_eq(listing.row[2].kind, LISTING_SITE);
	ck_assert_int_eq(listing.row[3].kind, LISTING_FRAME);
	ck_assert_uint_eq(listing.row[3].id, 101);
	ck_assert_uint_eq(listing.row[4].id, 102);
	listing_deinit(&listing);
	/* A note row says that the site has other chains. */
	check_open(false, both, 2, "other alloc .alloc .+ alloc .malloc .alloc");
	ck_assert_int_eq(listing.row[3].kind, LISTING_NOTE);
	listing_deinit(&listing);
}

HT_TEST(bottom_up_joins_the_sites_of_a_function)
{
	make_functions();
	for (size_t i = 0; i < 3; i++)
		now.row[i].sums.outstanding_bound_bytes = now.row[i].id == 100 ? 3 : 4;
	check_open(true, NULL, 0, "alloc other");
	const struct listing_row *row = &listing.row[0];
	ck_assert_int_eq(row->kind, LISTING_FUNCTION);
	ck_assert_uint_eq(row->sites, 2);
	ck_assert_uint_eq(row->site->id, 300);
	ck_assert(row->is_growing);
	ck_assert_int_eq(row->figures.outstanding_bytes, 800);
	ck_assert_double_eq(row->figures.outstanding_bound_bytes, 5);
	ck_assert_uint_eq(row->figures.allocations, 12);
	ck_assert_uint_eq(row->figures.oldest_ns, 9);
	ck_assert_uint_eq(row->trend[1], 80);
	listing_deinit(&listing);
}

HT_TEST(an_open_function_shows_its_sites_and_they_their_chains)
{
	make_functions();
	check_open(true, NULL, 0, "alloc other");
	const uint64_t open[] = {listing.row[0].id, 100};
	listing_deinit(&listing);
	check_open(true, open, 1, "alloc .alloc .alloc other");
	ck_assert_int_eq(listing.row[1].kind, LISTING_SITE);
	ck_assert_uint_eq(listing.row[1].id, 300);
	listing_deinit(&listing);
	check_open(true, open, 2, "alloc .alloc .alloc ..malloc ..alloc other");
	listing_deinit(&listing);
}

/* The same function has the same row in each table: it stays open. */
HT_TEST(the_row_of_a_function_is_found_again)
{
	make_functions();
	check_open(true, NULL, 0, "alloc other");
	const uint64_t id = listing.row[0].id;
	listing_deinit(&listing);
	toptable_begin(&now, 20);
	toptable_site(&now, 7, "zero", NULL, 9000);
	toptable_site(&now, 8, "alloc", "another", 10);
	check_open(true, &id, 1, "zero alloc .alloc");
	ck_assert_uint_eq(listing.row[1].id, id);
	listing_deinit(&listing);
}

HT_SUITE("analyzer/top_listing")