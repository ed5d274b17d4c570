/* SPDX-License-Identifier: Apache-2.0
 *
 * The progress bar: when it is drawn, what it shows, and that it is erased.
 */
#include "analyzer/ui/progress.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/ht_check.h"

#define MS    1000000ull
#define START (1000 * MS)
#define ERASE "\r\033[K"

static const struct terminal screen = {.is_terminal = true, .columns = 60, .rows = 24};

static char *text;
static size_t length;

/* Checks the text written since the last call. */
static void check_written(FILE *out, const char *want)
{
	fflush(out);
	ck_assert_str_eq(text, want);
	memset(text, 0, strlen(text));
	rewind(out);
	fflush(out);
}

static struct progress begin(const struct terminal *terminal, const char *what, uint64_t total)
{
	setenv("TERM", "xterm", true);
	FILE *out = open_memstream(&text, &length);
	ck_assert_ptr_nonnull(out);
	fflush(out);
	return progress_begin(out, terminal, what, total, START);
}

HT_TEST(from_half_a_second_on_ten_times_a_second)
{
	struct progress progress = begin(&screen, "reading a.htap", 1000);
	FILE *out = progress.out;
	progress_update(&progress, 100, START + 499 * MS);
	check_written(out, "");
	progress_update(&progress, 250, START + 500 * MS);
	check_written(out, ERASE "[#####               ]  25 % reading a.htap");
	progress_update(&progress, 300, START + 599 * MS);
	check_written(out, "");
	progress_update(&progress, 1000, START + 600 * MS);
	check_written(out, ERASE "[####################] 100 % reading a.htap");
	progress_end(&progress);
	check_written(out, ERASE);
	progress_end(&progress);
	check_written(out, "");
	fclose(out);
	free(text);
}

HT_TEST(short_work_shows_nothing)
{
	struct progress progress = begin(&screen, "reading a.htap", 1000);
	FILE *out = progress.out;
	progress_update(&progress, 1000, START + 400 * MS);
	progress_end(&progress);
	check_written(out, "");
	fclose(out);
	free(text);
}

HT_TEST(bytes_of_an_unknown_total)
{
	struct progress progress = begin(&screen, "reading -", 0);
	FILE *out = progress.out;
	progress_update(&progress, 3 << 20, START + 500 * MS);
	check_written(out, ERASE "3.0 MiB reading -");
	fclose(out);
	free(text);
}

/* The trace grew while it was read, so more is read than its first size. */
HT_TEST(more_than_the_total)
{
	struct progress progress = begin(&screen, "x", 10);
	FILE *out = progress.out;
	progress_update(&progress, 11, START + 500 * MS);
	check_written(out, ERASE "[####################] 100 % x");
	fclose(out);
	free(text);
}

HT_TEST(a_bar_is_narrower_than_the_terminal)
{
	struct terminal narrow = screen;
	narrow.columns = 41;
	struct progress progress = begin(&narrow, "reading a-very-long-name.htap", 10);
	FILE *out = progress.out;
	progress_update(&progress, 5, START + 500 * MS);
	check_written(out, ERASE "[##########          ]  50 % read...htap");
	narrow.columns = 20;
	progress = progress_begin(out, &narrow, "reading the trace", 10, START);
	progress_update(&progress, 5, START + 500 * MS);
	check_written(out, ERASE " 50 % readi...trace");
	fclose(out);
	free(text);
}

HT_TEST(only_where_a_line_can_be_erased)
{
	struct terminal file = screen;
	file.is_terminal = false;
	setenv("TERM", "xterm", true);
	struct progress progress = progress_begin(stderr, &file, "x", 10, START);
	ck_assert_ptr_null(progress.out);
	progress_update(&progress, 5, START + 500 * MS);
	progress_end(&progress);
	setenv("TERM", "dumb", true);
	progress = progress_begin(stderr, &screen, "x", 10, START);
	ck_assert_ptr_null(progress.out);
	unsetenv("TERM");
	progress = progress_begin(stderr, &screen, "x", 10, START);
	ck_assert_ptr_null(progress.out);
}

HT_SUITE("analyzer/progress")
