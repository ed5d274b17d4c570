/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines of the interactive table in terminals of any size.
 */
#include <stdlib.h>

#include "analyzer/top/screen.h"
#include "analyzer/ui/text.h"
#include "tests/support/random.h"
#include "tests/unit/analyzer/toptable.h"

#define SITES 12u

static struct toptable now;
static struct screen screen;
static struct screen_lines lines;
static struct heading heading;

static void begin(uint64_t time_s)
{
	const struct listing_options options = {.sort = LISTING_OUTSTANDING};
	heading = (struct heading){.pid = 42, .last = {.ok = true, .comm = "node", .events = 7}};
	toptable_begin(&now, time_s);
	screen_init(&screen, &options);
}

static void end(void)
{
	screen_lines_deinit(&lines);
	lines = (struct screen_lines){0};
	screen_deinit(&screen);
}

/* Sites f0, f1 ..., each smaller than the one before. */
static void add_sites(void)
{
	for (uint64_t i = 0; i < SITES; i++) {
		char name[16];
		snprintf(name, sizeof(name), "f%d", (int)i);
		toptable_site(&now, 100 * (i + 1), name, "main", 512 - i);
		toptable_frame(&now, name, "file.c:1");
	}
}

static void take(void)
{
	ck_no_err(screen_take(&screen, &now.snapshot));
}

static void press(uint32_t key)
{
	enum screen_action action;
	ck_no_err(screen_press(&screen, key, &action));
}

static void type(const char *text)
{
	for (; *text; text++)
		press((uint32_t)*text);
}

static void draw(unsigned columns, unsigned rows, const char *message)
{
	const struct terminal terminal = {.is_terminal = true, .columns = columns, .rows = rows};
	screen_lines_deinit(&lines);
	ck_no_err(screen_draw(&screen, &terminal, &heading, message, &lines));
}

/* Line `at` must be `text`, in this style. */
static void check_line(size_t at, enum screen_style style, const char *text)
{
	ck_assert_uint_lt(at, lines.count);
	ck_assert_str_eq(lines.line[at].text, text);
	ck_assert_int_eq(lines.line[at].style, style);
}

/* Returns the index of the line that begins with `text`; fails without one. */
static size_t line_of(const char *text)
{
	for (size_t i = 0; i < lines.count; i++)
		if (strncmp(lines.line[i].text, text, strlen(text)) == 0)
			return i;
	ck_abort_msg("no line \"%s\"", text);
}

static bool has_text(const char *text)
{
	for (size_t i = 0; i < lines.count; i++)
		if (strstr(lines.line[i].text, text))
			return true;
	return false;
}

/* --- the table ------------------------------------------------------------------------------- */

HT_TEST(the_table_word_for_word)
{
	begin(100);
	add_sites();
	now.row[1].is_growing = true;
	take();
	draw(80, 12, "");
	ck_assert_uint_eq(lines.count, 12);
	check_line(0, SCREEN_BOLD, "heaptap top - node 42  100.0 s  recording  7 events");
	check_line(1, SCREEN_PLAIN, "outstanding 5.9K  0/min  alloc 0/s  calls 0/s  0 threads");
	check_line(2, SCREEN_PLAIN, "Nothing grows so far; 12 sites, most outstanding first");
	check_line(3, SCREEN_REVERSE,
		" OUTSTAND   +/MIN ALLOC/S CALLS/S TEMP  AGE TREND  FUNCTION <- CALLER");
	check_line(
		4, SCREEN_REVERSE, "      512       0       0       0    -    -        f0 <- main");
	check_line(5, SCREEN_BOLD, "*     511       0       0       0    -    -        f1 <- main");
	check_line(
		6, SCREEN_PLAIN, "      510       0       0       0    -    -        f2 <- main");
	/* The selected row in full, and the keys. */
	check_line(10, SCREEN_DIM, "f0 <- main");
	check_line(11, SCREEN_REVERSE,
		"q quit  ? help  s outstanding  / filter  B bottom-up  m mark  w save  p pause...");
	ck_assert(!lines.has_cursor);
	end();
}

HT_TEST(an_open_stack_is_dim_below_its_row)
{
	begin(100);
	add_sites();
	take();
	press(SCREEN_DOWN);
	press(SCREEN_ENTER);
	draw(80, 12, "");
	check_line(
		5, SCREEN_REVERSE, "      511       0       0       0    -    -        f1 <- main");
	check_line(6, SCREEN_DIM, "        <- f1  file.c:1");
	check_line(10, SCREEN_DIM, "f1 <- main");
	end();
}

HT_TEST(the_selected_row_is_always_visible)
{
	begin(100);
	add_sites();
	take();
	draw(80, 12, "");
	/* Six rows are visible. */
	for (int i = 0; i < 6; i++)
		press('j');
	draw(80, 12, "");
	ck_assert_ptr_nonnull(strstr(lines.line[4].text, " f1 <- main"));
	ck_assert_ptr_nonnull(strstr(lines.line[9].text, " f6 <- main"));
	press(SCREEN_END);
	draw(80, 12, "");
	ck_assert(!has_text(" f0 <- main"));
	ck_assert_int_eq(lines.line[9].style, SCREEN_REVERSE);
	ck_assert_ptr_nonnull(strstr(lines.line[9].text, " f11 <- main"));
	/* In a smaller terminal, too, the last row is shown. */
	draw(80, 8, "");
	ck_assert_ptr_nonnull(strstr(lines.line[5].text, " f11 <- main"));
	/* In a larger terminal no row above is left out. */
	draw(80, 40, "");
	ck_assert_uint_eq(lines.count, 40);
	ck_assert_ptr_nonnull(strstr(lines.line[4].text, " f0 <- main"));
	ck_assert_int_eq(lines.line[15].style, SCREEN_REVERSE);
	end();
}

HT_TEST(a_page_is_the_visible_rows)
{
	begin(100);
	add_sites();
	take();
	draw(80, 12, "");
	press(SCREEN_PAGE_DOWN);
	ck_assert_uint_eq(screen.selected, 6);
	press(SCREEN_PAGE_DOWN);
	ck_assert_uint_eq(screen.selected, SITES - 1);
	press(SCREEN_PAGE_UP);
	ck_assert_uint_eq(screen.selected, 5);
	end();
}

/* --- without rows ---------------------------------------------------------------------------- */

HT_TEST(before_the_first_figures)
{
	begin(0);
	draw(80, 10, "");
	ck_assert_uint_eq(lines.count, 10);
	check_line(1, SCREEN_PLAIN, "The first figures come in a moment");
	press(SCREEN_DOWN);
	press(SCREEN_ENTER);
	press('b');
	press('s');
	heading.has_ended = true;
	draw(80, 10, "");
	check_line(1, SCREEN_PLAIN, "The capture has ended before it recorded anything");
	end();
}

HT_TEST(an_empty_table_says_why)
{
	begin(2);
	take();
	draw(80, 10, "");
	ck_assert_uint_eq(lines.count, 10);
	check_line(2, SCREEN_PLAIN, "Too early to tell what grows; 0 sites so far");
	check_line(4, SCREEN_DIM, "  nothing has been allocated yet");
	check_line(8, SCREEN_PLAIN, "");
	press(SCREEN_DOWN);
	press(SCREEN_ENTER);
	add_sites();
	take();
	type("/f1");
	press(SCREEN_ENTER);
	draw(80, 10, "");
	ck_assert_uint_eq(screen.listing.count, 3);
	type("/zz");
	press(SCREEN_ENTER);
	draw(80, 10, "");
	check_line(4, SCREEN_DIM, "  no stack has this text; Esc shows all");
	end();
}

/* --- headings and messages ------------------------------------------------------------------- */

HT_TEST(the_heading_shows_baseline_hold_and_end)
{
	begin(100);
	add_sites();
	take();
	press('b');
	now.snapshot.figures.time_ns += 65 * TOPTABLE_NS;
	now.row[3].sums.outstanding_bytes += 2048;
	take();
	draw(80, 12, "");
	check_line(2, SCREEN_PLAIN, "Since the baseline, 65.0 s ago: changes and rates");
	ck_assert_uint_eq(line_of("   CHANGE "), 3);
	ck_assert_ptr_nonnull(strstr(lines.line[4].text, "+2.0K"));
	ck_assert_ptr_nonnull(strstr(lines.line[4].text, " f3 <- main"));
	press('b');
	draw(80, 12, "");
	ck_assert_uint_eq(line_of(" OUTSTAND "), 3);
	press(' ');
	draw(80, 12, "");
	ck_assert(has_text("  display held"));
	heading.last.cull_ns = 10000000000;
	draw(80, 12, "");
	ck_assert(has_text("  recording, 10 s late (--cull)  7 events"));
	heading.last.cull_ns = 0;
	heading.last.paused = true;
	draw(80, 12, "");
	ck_assert(has_text("  paused  "));
	heading.has_ended = true;
	draw(80, 12, "");
	check_line(
		2, SCREEN_WARNING, "The capture has ended: the capture does not answer any more");
	end();
}

/* If the trace had nothing new between two snapshots, rates do not become 0. */
HT_TEST(rates_stay_while_nothing_is_new)
{
	begin(100);
	add_sites();
	take();
	now.snapshot.figures.time_ns += 2 * TOPTABLE_NS;
	now.snapshot.figures.sums.allocations += 500;
	take();
	ck_assert_double_eq(screen.listing.total.calls_per_s, 250);
	take();
	ck_assert_double_eq(screen.listing.total.calls_per_s, 250);
	now.snapshot.figures.time_ns += 5 * TOPTABLE_NS;
	take();
	ck_assert_double_eq(screen.listing.total.calls_per_s, 0);
	end();
}

HT_TEST(a_message_stands_above_the_keys)
{
	char path[200], whole[300];
	memset(path, 'x', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	snprintf(whole, sizeof(whole), "cannot write /tmp/%s: \033[2JNo space left", path);
	begin(100);
	add_sites();
	take();
	draw(80, 12, whole);
	const char *line = lines.line[10].text;
	ck_assert_int_eq(lines.line[10].style, SCREEN_WARNING);
	ck_assert_uint_eq(text_columns(line), 80);
	/* A long message keeps its reason. */
	ck_assert_ptr_nonnull(strstr(line, "No space left"));
	ck_assert_ptr_nonnull(strstr(line, "cannot write "));
	ck_assert_ptr_null(strchr(line, '\033'));
	end();
}

HT_TEST(what_is_typed_keeps_its_end)
{
	begin(100);
	take();
	press('m');
	draw(40, 10, "");
	check_line(9, SCREEN_BOLD, "Mark:");
	ck_assert(lines.has_cursor);
	type("deploy");
	draw(40, 10, "");
	check_line(9, SCREEN_BOLD, "Mark: deploy");
	type(" of a version with a name that is too long");
	draw(40, 10, "");
	check_line(9, SCREEN_BOLD, "Mark: sion with a name that is too long");
	end();
}

HT_TEST(help_scrolls_in_a_low_terminal)
{
	begin(100);
	take();
	press('?');
	draw(80, 24, "");
	ck_assert_uint_eq(lines.count, 24);
	check_line(0, SCREEN_BOLD, "Columns");
	check_line(23, SCREEN_REVERSE, "any key: back to the table");
	draw(40, 8, "");
	check_line(0, SCREEN_BOLD, "Columns");
	check_line(7, SCREEN_REVERSE, "any key: back; j and k move");
	for (int i = 0; i < 100; i++)
		press('j');
	draw(80, 8, "");
	ck_assert(has_text("  q, Ctrl-C "));
	press('k');
	draw(80, 8, "");
	ck_assert(!has_text("  q, Ctrl-C "));
	press('x');
	draw(80, 8, "");
	ck_assert_uint_eq(line_of(" OUTSTAND "), 3);
	end();
}

/* --- any size -------------------------------------------------------------------------------- */

HT_TEST(a_terminal_that_is_too_small_says_so)
{
	begin(100);
	add_sites();
	take();
	draw(20, 3, "a message");
	ck_assert_uint_eq(lines.count, 1);
	check_line(0, SCREEN_WARNING, "too small: min 36x8");
	draw(SCREEN_COLUMNS_LEAST - 1, 24, "");
	check_line(0, SCREEN_WARNING, "too small: min 36x8");
	draw(80, SCREEN_ROWS_LEAST - 1, "");
	check_line(0, SCREEN_WARNING, "too small: min 36x8");
	draw(80, 1, "");
	check_line(0, SCREEN_WARNING, "too small: min 36x8");
	draw(SCREEN_COLUMNS_LEAST, SCREEN_ROWS_LEAST, "");
	ck_assert_uint_eq(lines.count, SCREEN_ROWS_LEAST);
	ck_assert(has_text(" f0"));
	end();
}

static void check_fits(unsigned columns, unsigned rows)
{
	draw(columns, rows, "The mark is in the trace");
	ck_assert_uint_eq(lines.count, rows);
	for (size_t i = 0; i < lines.count; i++)
		ck_assert_msg(text_columns(lines.line[i].text) <= columns, "%u: %s", columns,
			lines.line[i].text);
}

HT_TEST(all_lines_fit_into_any_terminal)
{
	static const uint32_t key[] = {'j', 'k', 'G', 'g', 's', 'B', 'b', 'l', 'h', ' ', '?', '/',
		'm', 'w', 'x', SCREEN_ENTER, SCREEN_ESCAPE, SCREEN_PAGE_DOWN, SCREEN_PAGE_UP,
		SCREEN_BACKSPACE};
	uint64_t seed = 1;
	begin(100);
	for (unsigned i = 0; i < 3000; i++) {
		if (i % 100 == 0) {
			toptable_begin(&now, 100 + i);
			if (i % 300)
				add_sites();
			take();
		}
		press(key[random_below(&seed, HT_ARRAY_SIZE(key))]);
		check_fits(SCREEN_COLUMNS_LEAST + (unsigned)random_below(&seed, 150),
			SCREEN_ROWS_LEAST + (unsigned)random_below(&seed, 60));
	}
	end();
}

HT_SUITE("analyzer/top_draw")