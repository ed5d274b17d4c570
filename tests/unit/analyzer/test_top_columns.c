/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines of the live table, word for word; and that none is wider than the terminal, whatever
 * the names.
 */
#include "analyzer/top/columns.h"

#include <stdlib.h>

#include "tests/support/random.h"
#include "tests/unit/analyzer/toptable.h"

static struct toptable now;
static struct listing_row row;
static char *shown;

/* --- figures --------------------------------------------------------------------------------- */

HT_TEST(bytes_have_three_digits_that_count)
{
	ck_assert_str_eq(columns_bytes(0).text, "0");
	ck_assert_str_eq(columns_bytes(999).text, "999");
	ck_assert_str_eq(columns_bytes(1000).text, "1.0K");
	ck_assert_str_eq(columns_bytes(1536).text, "1.5K");
	ck_assert_str_eq(columns_bytes(102348).text, "99.9K");
	ck_assert_str_eq(columns_bytes(102400).text, "100K");
	ck_assert_str_eq(columns_bytes(1000ull << 10).text, "1.0M");
	ck_assert_str_eq(columns_bytes(123ull << 30).text, "123G");
	ck_assert_str_eq(columns_bytes(UINT64_MAX).text, "16.0E");
}

HT_TEST(changes_have_a_sign)
{
	ck_assert_str_eq(columns_change(0).text, "0");
	ck_assert_str_eq(columns_change(1536).text, "+1.5K");
	ck_assert_str_eq(columns_change(-1536).text, "-1.5K");
	ck_assert_str_eq(columns_change(INT64_MIN).text, "-8.0E");
	ck_assert_str_eq(columns_change(INT64_MAX).text, "+8.0E");
}

HT_TEST(rates_are_of_powers_of_a_thousand)
{
	ck_assert_str_eq(columns_rate(0.4).text, "0");
	ck_assert_str_eq(columns_rate(204).text, "204");
	ck_assert_str_eq(columns_rate(1200).text, "1.2k");
	ck_assert_str_eq(columns_rate(28000).text, "28.0k");
	ck_assert_str_eq(columns_rate(3.4e6).text, "3.4M");
}

HT_TEST(ages_have_one_unit)
{
	const uint64_t s = TOPTABLE_NS;
	ck_assert_str_eq(columns_age(0).text, "-");
	ck_assert_str_eq(columns_age(1).text, "0s");
	ck_assert_str_eq(columns_age(599 * s).text, "599s");
	ck_assert_str_eq(columns_age(600 * s).text, "10m");
	ck_assert_str_eq(columns_age(600 * 60 * s).text, "10h");
	ck_assert_str_eq(columns_age(100 * 3600 * s).text, "4d");
	ck_assert_uint_le(strlen(columns_age(UINT64_MAX).text), 5);
}

/* --- rows ------------------------------------------------------------------------------------ */

enum part { TITLES, TITLES_OF_CHANGES, ROW, ROW_OF_CHANGES, NAMES };

/* Returns the part of the table, `columns` wide; the text is valid until the next call. */
static const char *show(enum part part, unsigned columns)
{
	size_t length = 0;
	free(shown);
	shown = NULL;
	FILE *out = open_memstream(&shown, &length);
	const struct text text = {.out = out, .columns = columns};
	struct line line;
	line_begin(&line, &text);
	if (part == TITLES || part == TITLES_OF_CHANGES)
		columns_put_titles(&line, &now.snapshot, part == TITLES_OF_CHANGES);
	else if (part == NAMES)
		columns_put_names(&line, &now.snapshot, &row);
	else
		columns_put_row(&line, &now.snapshot, &row, part == ROW_OF_CHANGES);
	line_end(&line);
	fclose(out);
	ck_assert_ptr_eq(strchr(shown, '\n'), shown + length - 1);
	shown[length - 1] = '\0';
	return shown;
}

/* Makes a row of a site with figures that fill their columns. */
static void make_site(const char *function, const char *caller)
{
	toptable_begin(&now, 100);
	struct snapshot_row *site = toptable_site(&now, 1, function, caller, 0);
	toptable_frame(&now, function, "file.c:12");
	row = (struct listing_row){.kind = LISTING_SITE,
		.site = site,
		.is_growing = true,
		.trend_count = 3,
		.trend = {0, 1, 2},
		.figures = {.outstanding_bytes = 102348,
			.per_minute_bytes = -102348,
			.bytes_per_s = 1536,
			.calls_per_s = 1200,
			.temporary = 1,
			.allocations = 4,
			.oldest_ns = 98 * TOPTABLE_NS}};
}

HT_TEST(titles_stand_above_their_figures)
{
	make_site("alloc", "main");
	ck_assert_str_eq(show(TITLES, 80),
		" OUTSTAND   +/MIN ALLOC/S CALLS/S TEMP  AGE TREND  FUNCTION <- CALLER");
	ck_assert_str_eq(
		show(ROW, 80), "*   99.9K  -99.9K    1.5K    1.2k  25%  98s _-#    alloc <- main");
	ck_assert_str_eq(show(TITLES_OF_CHANGES, 80),
		"   CHANGE   +/MIN ALLOC/S CALLS/S TEMP  AGE TREND  FUNCTION <- CALLER");
	ck_assert_str_eq(show(ROW_OF_CHANGES, 80),
		"*  +99.9K  -99.9K    1.5K    1.2k  25%  98s _-#    alloc <- main");
	row.is_growing = false;
	row.figures.allocations = 0;
	row.figures.outstanding_bytes = -1;
	ck_assert_str_eq(
		show(ROW, 80), "        0  -99.9K    1.5K    1.2k    -  98s _-#    alloc <- main");
}

HT_TEST(narrow_terminals_have_fewer_columns)
{
	make_site("alloc", "main");
	ck_assert_str_eq(show(TITLES, 75), " OUTSTAND   +/MIN ALLOC/S CALLS/S FUNCTION <- CALLER");
	ck_assert_str_eq(show(ROW, 75), "*   99.9K  -99.9K    1.5K    1.2k alloc <- main");
	ck_assert_str_eq(show(TITLES, 55), " OUTSTAND   +/MIN FUNCTION <- CALLER");
	ck_assert_str_eq(show(ROW, 55), "*   99.9K  -99.9K alloc <- main");
	ck_assert_ptr_nonnull(strstr(show(TITLES, 76), " TEMP "));
	ck_assert_ptr_nonnull(strstr(show(TITLES, 56), " CALLS/S "));
	/* The caller is shown only if both names are readable. */
	ck_assert_str_eq(show(ROW, COLUMNS_LEAST), "*   99.9K  -99.9K alloc");
	ck_assert_str_eq(show(ROW, 20), "*   99.9K  -99.9K...");
}

HT_TEST(a_sample_has_bounds)
{
	make_site("alloc", "main");
	row.figures.outstanding_bound_bytes = 1536;
	/* An exact capture has no such column. */
	ck_assert_ptr_null(strstr(show(TITLES, 80), "BOUND"));
	now.snapshot.figures.is_estimate = true;
	ck_assert_str_eq(show(TITLES, 80),
		" OUTSTAND   BOUND   +/MIN ALLOC/S CALLS/S  AGE TREND  FUNCTION <- CALLER");
	ck_assert_str_eq(show(ROW, 80),
		"*   99.9K  +-1.5K  -99.9K    1.5K    1.2k  98s _-#    alloc <- main");
	ck_assert_str_eq(
		show(TITLES, 56), " OUTSTAND   BOUND   +/MIN ALLOC/S CALLS/S FUNCTION <-...");
	ck_assert_ptr_null(strstr(show(ROW, 55), "+-"));
	/* A site whose samples count for themselves alone is exact. */
	row.figures.outstanding_bound_bytes = 0;
	ck_assert_str_eq(show(ROW, 80),
		"*   99.9K          -99.9K    1.5K    1.2k  98s _-#    alloc <- main");
}

HT_TEST(long_names_share_what_is_left)
{
	make_site("app::sessions::Table::insert_or_replace(app::Key const&, int)",
		"app::database::Connection::execute(std::string const&)");
	ck_assert_str_eq(show(ROW, 80), "*   99.9K  -99.9K    1.5K    1.2k  25%  98s _-#    "
					"..inse...replace <- ..execute");
	ck_assert_str_eq(show(ROW, 100), "*   99.9K  -99.9K    1.5K    1.2k  25%  98s _-#        "
					 "..insert_or_replace <- ..Connection::execute");
	/* A short caller leaves more room to the function. */
	make_site("a_function_of_a_library_in_c", "main");
	ck_assert_str_eq(show(ROW, 80),
		"*   99.9K  -99.9K    1.5K    1.2k  25%  98s _-#    a_functio...rary_in_c <- main");
}

HT_TEST(a_script_stands_for_the_caller)
{
	make_site("malloc", "node::Buffer");
	now.row[0].script = toptable_text(&now, "render", "app.js:3");
	ck_assert_str_eq(show(ROW, 80),
		"*   99.9K  -99.9K    1.5K    1.2k  25%  98s _-#    malloc <- render");
	ck_assert_str_eq(show(NAMES, 80), "malloc <- node::Buffer <- render");
}

HT_TEST(functions_have_no_caller)
{
	make_site("alloc", "main");
	row.kind = LISTING_FUNCTION;
	ck_assert_str_eq(show(ROW, 80), "*   99.9K  -99.9K    1.5K    1.2k  25%  98s _-#    alloc");
	/* The function's sites are below its row. */
	row.kind = LISTING_SITE;
	row.depth = 1;
	ck_assert_str_eq(show(ROW, 80),
		"*   99.9K  -99.9K    1.5K    1.2k  25%  98s _-#      alloc <- main");
}

HT_TEST(frames_have_their_place)
{
	make_site("alloc", "main");
	row.kind = LISTING_FRAME;
	row.depth = 1;
	row.frame = now.frame[0];
	ck_assert_str_eq(show(ROW, 80), "        <- alloc  file.c:12");
	ck_assert_str_eq(show(NAMES, 80), "alloc  file.c:12");
	/* If there is no room for both, the name is shown, not the place. */
	ck_assert_str_eq(show(ROW, 30), "        <- alloc");
	row.kind = LISTING_NOTE;
	row.site = &now.row[0];
	now.row[0].chains = 12;
	ck_assert_str_eq(show(ROW, 80), "        (the largest of 12 chains)");
}

/* --- whatever the names ---------------------------------------------------------------------- */

static const char *hostile_name(uint64_t *seed)
{
	static char text[512];
	static const char *const part[] = {"std::vector<int>::", "operator<<", "\u6f22\u5b57",
		"e\u0301", "\xff\xfe", "a_rather_long_function_name_of_c", ">>>", "((((", "::", "x",
		"<alloc::vec::Vec<T> as a::B>::"};
	size_t used = 0;
	text[0] = '\0';
	for (uint64_t parts = random_below(seed, 12); parts; parts--) {
		const char *more = part[random_below(seed, HT_ARRAY_SIZE(part))];
		if (used + strlen(more) < sizeof(text))
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s", more);
	}
	return text;
}

static void check_width(enum part part, unsigned columns)
{
	const char *line = show(part, columns);
	ck_assert_msg(text_columns(line) <= columns, "%zu of %u columns: %s", text_columns(line),
		columns, line);
}

HT_TEST(no_line_is_wider_than_the_terminal)
{
	for (uint64_t seed = 1; seed <= 400; seed++) {
		uint64_t random = seed;
		char function[512];
		snprintf(function, sizeof(function), "%s", hostile_name(&random));
		make_site(function, hostile_name(&random));
		now.frame[0] = toptable_text(&now, function, hostile_name(&random));
		row.frame = now.frame[0];
		row.kind = (enum listing_kind)random_below(&random, LISTING_NOTE + 1);
		row.depth = (unsigned)random_below(&random, 3);
		row.figures.bytes_per_s = 1e18;
		row.figures.calls_per_s = 1e18;
		row.figures.outstanding_bytes = INT64_MIN;
		row.figures.oldest_ns = UINT64_MAX;
		row.figures.outstanding_bound_bytes = 1e30;
		now.snapshot.figures.is_estimate = random_below(&random, 2);
		const unsigned columns = 20 + (unsigned)random_below(&random, 140);
		for (unsigned part = TITLES; part <= NAMES; part++)
			check_width((enum part)part, columns);
	}
}

HT_SUITE("analyzer/top_columns")