/* SPDX-License-Identifier: Apache-2.0
 *
 * diff and trend on a page of 80 columns: what they print, and that no name of a program breaks it.
 */
#include "analyzer/ui/compare_text.h"

#include <stdlib.h>

#include "tests/unit/analyzer/sides.h"

#define COLUMNS 80u

static struct side side[COMPARE_VIEWS_MAX];
static const struct view *view[COMPARE_VIEWS_MAX];
static uint32_t count;
static uint64_t last_seconds; /* length of the last window */
static struct compare compare;

static void begin_sample(uint32_t sides, uint64_t sample_bytes)
{
	count = sides;
	last_seconds = 60;
	for (uint32_t i = 0; i < count; i++)
		side_begin_sample(&side[i], 0x400000, 0, "/src", sample_bytes);
}

static void begin(uint32_t sides)
{
	begin_sample(sides, 0);
}

static void alloc_in(uint32_t index, const char *function, const char *file, uint64_t bytes)
{
	uint32_t caller = side_frame(&side[index], 0, "caller_of_all", "main.c", 7);
	side_alloc(&side[index], 1, bytes, side_frame(&side[index], caller, function, file, 123));
}

/* Returns the page; the caller frees it. */
static char *print_page(void (*write)(const struct compare_text *), const char *path, size_t limit)
{
	const struct terminal terminal = {.columns = COLUMNS, .has_utf8 = true};
	const char *paths[COMPARE_VIEWS_MAX];
	char *bytes = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&bytes, &length);
	const struct text text = text_for(out, &terminal);
	for (uint32_t i = 0; i < count; i++) {
		side_end(&side[i], i + 1 < count ? 60 : last_seconds);
		view[i] = side[i].view;
		paths[i] = path;
	}
	ck_no_err(compare_init(&compare, view, count));
	compare_sort(&compare, METRIC_OUTSTANDING);
	const struct compare_text page = {.text = &text,
		.compare = &compare,
		.path = paths,
		.metric = METRIC_OUTSTANDING,
		.limit = limit,
		.utc = true};
	write(&page);
	fclose(out);
	ck_assert_uint_eq(strlen(bytes), length);
	return bytes;
}

static void end(char *page)
{
	free(page);
	compare_deinit(&compare);
	for (uint32_t i = 0; i < count; i++)
		side_deinit(&side[i]);
}

static void check_has(const char *page, const char *want)
{
	ck_assert_msg(strstr(page, want) != NULL, "no \"%s\" in:\n%s", want, page);
}

static void check_lacks(const char *page, const char *word)
{
	ck_assert_msg(strstr(page, word) == NULL, "\"%s\" in:\n%s", word, page);
}

/* No line is wider than the page, and the page has nothing that a terminal obeys. */
static void check_page(const char *page)
{
	for (const char *at = page; *at;) {
		const char *newline = strchr(at, '\n');
		ck_assert_ptr_nonnull(newline);
		char *line = strndup(at, (size_t)(newline - at));
		for (const char *c = line; *c; c++)
			ck_assert_msg(
				(unsigned char)*c >= 0x20 && *c != 0x7f, "%02x in: %s", *c, line);
		ck_assert_msg(
			text_columns(line) <= COLUMNS, "%zu columns: %s", text_columns(line), line);
		ck_assert_msg(!strstr(line, "\xe2\x80\xae"), "it turns the direction: %s", line);
		free(line);
		at = newline + 1;
	}
}

HT_TEST(diff_prints_what_changed)
{
	begin(2);
	alloc_in(0, "stays", "a.c", 1 << 20);
	alloc_in(1, "stays", "a.c", 1 << 20);
	alloc_in(0, "grows", "a.c", 1 << 20);
	alloc_in(1, "grows", "a.c", 3 << 20);
	alloc_in(0, "shrinks", "a.c", 4 << 20);
	alloc_in(1, "shrinks", "a.c", 3 << 20);
	alloc_in(1, "appears", "a.c", 5 << 20);
	alloc_in(0, "vanishes", "a.c", 1 << 20);
	char *page = print_page(compare_text_diff, "x.htap", 0);
	check_page(page);
	check_has(page, "outstanding: ");
	check_has(page, "  new       +5.0 MiB          -    5.0 MiB  appears  a.c:123");
	check_has(page, "  grown     +2.0 MiB    1.0 MiB    3.0 MiB  grows  a.c:123");
	check_has(page, "  shrunk    -1.0 MiB    4.0 MiB    3.0 MiB  shrinks  a.c:123");
	check_has(page, "  gone      -1.0 MiB    1.0 MiB          -  vanishes  a.c:123");
	check_has(page, "  total     +5.0 MiB    7.0 MiB   12.0 MiB  +71.4 %");
	check_has(page, "<- caller_of_all");
	check_has(page, "  1 site did not change by more than a tenth\n");
	check_lacks(page, "stays");
	end(page);
}

/* The second window is a tenth as long. Both have one cache of the same size, whose growth per
 * minute is therefore ten times as high in the second. */
HT_TEST(amounts_overrule_rates_of_unlike_windows)
{
	begin(2);
	last_seconds = 6;
	alloc_in(0, "cache", "a.c", 10 << 20);
	alloc_in(1, "cache", "a.c", 10 << 20);
	char *page = print_page(compare_text_diff, "x.htap", 0);
	check_page(page);
	check_has(page, "  total         same   10.0 MiB  100.0 MiB  10.0 MiB -> 10.0 MiB, windows "
			"differ\n");
	check_has(page, "  1 site did not change by more than a tenth\n");
	end(page);
}

HT_TEST(a_limit_says_what_it_hides)
{
	char name[16];
	begin(2);
	for (unsigned i = 0; i < 10; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		alloc_in(1, name, "a.c", (i + 1) << 20);
	}
	char *page = print_page(compare_text_diff, "x.htap", 2);
	check_has(page, " f9 ");
	check_has(page, " f8 ");
	check_lacks(page, " f7 ");
	check_has(page, "  8 more sites changed; --limit 0 shows them\n");
	end(page);
}

HT_TEST(traces_without_allocations)
{
	begin(2);
	char *page = print_page(compare_text_diff, "x.htap", 0);
	check_page(page);
	check_has(page, "neither trace has a site with such figures");
	end(page);
}

HT_TEST(trend_has_a_line_for_each_site)
{
	begin(4);
	for (uint32_t i = 0; i < 4; i++) {
		alloc_in(i, "rises", "a.c", (i + 1) << 20);
		alloc_in(i, "falls", "a.c", (4 - i) << 20);
	}
	char *page = print_page(compare_text_trend, "x.htap", 0);
	check_page(page);
	check_has(page, "    1.0 MiB    4.0 MiB  rises  a.c:123");
	check_has(page, "    4.0 MiB    1.0 MiB  falls  a.c:123");
	check_has(page, "    5.0 MiB    5.0 MiB  total");
	ck_assert(strstr(page, "rises") < strstr(page, "falls"));
	end(page);
}

/* Blocks of 4095 bytes in a sample of one in 4096 (test_compare.c): each counts for 6478 bytes; 4
 * have a bound of 16,759, 9 of 24,029. */
static void alloc_samples(uint32_t index, const char *function, unsigned blocks)
{
	for (unsigned i = 0; i < blocks; i++)
		alloc_in(index, function, "a.c", 4095);
}

HT_TEST(bounds_of_a_sample_stand_below)
{
	begin_sample(2, 4096);
	alloc_samples(0, "grows", 4);
	alloc_samples(1, "grows", 9);
	alloc_samples(1, "appears", 4);
	alloc_samples(0, "vanishes", 4);
	char *page = print_page(compare_text_diff, "x.htap", 0);
	check_page(page);
	check_has(
		page, "  figures of a sample are estimates: below each stands its bound at 95 %\n");
	/* "grows" has 58,302 - 25,912 bytes more, with a bound of sqrt(16759^2 + 24029^2) =
	 * 29,296. */
	check_has(page, "  grown    +31.6 KiB   25.3 KiB   56.9 KiB  grows  a.c:123 <- "
			"caller_of_all\n"
			"               \xc2\xb1"
			"90 %      \xc2\xb1"
			"65 %      \xc2\xb1"
			"41 %\n");
	check_has(page, "  new      +25.3 KiB          -   25.3 KiB  appears  a.c:123 <- "
			"caller_of_all\n"
			"               \xc2\xb1"
			"65 %                 \xc2\xb1"
			"65 %\n");
	check_has(page, "  gone     -25.3 KiB   25.3 KiB          -  vanishes  a.c:123 <- "
			"caller_of_all\n"
			"               \xc2\xb1"
			"65 %      \xc2\xb1"
			"65 %\n");
	end(page);
	begin_sample(2, 4096);
	alloc_samples(0, "grows", 4);
	alloc_samples(1, "grows", 9);
	page = print_page(compare_text_trend, "x.htap", 0);
	check_page(page);
	check_has(page, "   25.3 KiB   56.9 KiB  grows  a.c:123 <- caller_of_all\n"
			"          \xc2\xb1"
			"65 %      \xc2\xb1"
			"41 %\n");
	end(page);
}

HT_TEST(whole_traces_have_no_bounds)
{
	begin(2);
	alloc_samples(0, "grows", 4);
	alloc_samples(1, "grows", 9);
	char *page = print_page(compare_text_diff, "x.htap", 0);
	check_lacks(page, "\xc2\xb1");
	check_lacks(page, "sample");
	end(page);
}

/* --- hostile names -----------------------------------------------------------------------------
 */

static char long_name[4000];

static const char *const hostile[] = {
	"\x1b[31mred\x1b]0;title\x07",
	"new\nline\r\tand tab",
	"\xe2\x80\xae"
	"drawkcab\xe2\x80\xac", /* right-to-left override */
	"\xff\xfe not UTF-8 \xc3",
	"\xe5\xad\x97\xe5\xad\x97\xe5\xad\x97\xe5\xad\x97\xe5\xad\x97\xe5\xad\x97\xe5\xad\x97"
	"\xe5\xad\x97\xe5\xad\x97\xe5\xad\x97\xe5\xad\x97\xe5\xad\x97\xe5\xad\x97\xe5\xad\x97"
	"\xe5\xad\x97\xe5\xad\x97\xe5\xad\x97\xe5\xad\x97\xe5\xad\x97\xe5\xad\x97\xe5\xad\x97"
	"\xe5\xad\x97\xe5\xad\x97\xe5\xad\x97\xe5\xad\x97\xe5\xad\x97\xe5\xad\x97\xe5\xad\x97",
	"</script><b>%s%n%d",
	"std::map<std::string, std::vector<std::pair<int, std::unique_ptr<app::Long>>>>::insert("
	"std::string const&, std::vector<std::pair<int, std::unique_ptr<app::Long>>>&&)",
	long_name,
	" ",
	"e\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81",
};

static void check_hostile(uint32_t sides, void (*write)(const struct compare_text *))
{
	memset(long_name, 'x', sizeof(long_name) - 1);
	for (size_t i = 0; i < HT_ARRAY_SIZE(hostile); i++) {
		begin_sample(sides, i % 2 ? 1 << 20 : 0);
		for (size_t k = 0; k < HT_ARRAY_SIZE(hostile); k++)
			alloc_in(sides - 1, hostile[k], hostile[i], (k + 1) << 20);
		char *page = print_page(write, hostile[i], 0);
		check_page(page);
		end(page);
	}
}

HT_TEST(diff_of_hostile_names)
{
	check_hostile(2, compare_text_diff);
}

HT_TEST(trend_of_hostile_names)
{
	check_hostile(2, compare_text_trend);
	check_hostile(COMPARE_VIEWS_MAX, compare_text_trend);
}

HT_SUITE("analyzer/compare_text")
