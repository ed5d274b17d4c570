/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys of the interactive table: what is selected, open, typed and asked for.
 */
#include "analyzer/top/screen.h"

#include "tests/unit/analyzer/toptable.h"

static struct toptable now;
static struct screen screen;
static enum screen_action action;

static void take(void)
{
	ck_no_err(screen_take(&screen, &now.snapshot));
}

static void begin(void)
{
	const struct listing_options options = {.sort = LISTING_OUTSTANDING};
	screen_init(&screen, &options);
	toptable_begin(&now, 10);
	toptable_site(&now, 100, "large", "main", 300);
	toptable_frame(&now, "large", "");
	toptable_frame(&now, "main", "");
	toptable_site(&now, 200, "middle", "main", 200);
	toptable_frame(&now, "middle", "");
	toptable_site(&now, 300, "small", "main", 100);
	toptable_frame(&now, "small", "");
	take();
}

static void press(uint32_t key)
{
	ck_no_err(screen_press(&screen, key, &action));
}

static void type(const char *text)
{
	for (; *text; text++)
		press((uint32_t)*text);
}

static const char *selected(void)
{
	ck_assert_uint_lt(screen.selected, screen.listing.count);
	const struct listing_row *row = &screen.listing.row[screen.selected];
	return snapshot_function(
		screen.now, row->kind == LISTING_FRAME ? row->frame : row->site->function);
}

/* --- selection ------------------------------------------------------------------------------- */

HT_TEST(the_selection_stays_on_its_function)
{
	begin();
	press(SCREEN_DOWN);
	ck_assert_str_eq(selected(), "middle");
	now.row[1].sums.outstanding_bytes = 1;
	take();
	ck_assert_str_eq(selected(), "middle");
	ck_assert_uint_eq(screen.selected, 2);
	now.row[1].sums.outstanding_bytes = 1000;
	take();
	ck_assert_str_eq(selected(), "middle");
	ck_assert_uint_eq(screen.selected, 0);
	/* The selection also stays when another column orders the rows. */
	now.row[2].oldest_ns = 5;
	take();
	while (screen.sort != LISTING_AGE)
		press('s');
	ck_assert_str_eq(selected(), "middle");
	ck_assert_uint_eq(screen.selected, 1);
	screen_deinit(&screen);
}

HT_TEST(the_first_row_is_selected_until_another_is_chosen)
{
	begin();
	now.row[2].sums.outstanding_bytes = 1000;
	take();
	ck_assert_str_eq(selected(), "small");
	press(SCREEN_END);
	press(SCREEN_HOME);
	now.row[1].sums.outstanding_bytes = 2000;
	take();
	ck_assert_str_eq(selected(), "middle");
	screen_deinit(&screen);
}

HT_TEST(a_row_that_went_is_selected_when_it_is_back)
{
	begin();
	press('G');
	ck_assert_str_eq(selected(), "small");
	type("/middle");
	press(SCREEN_ENTER);
	ck_assert_str_eq(selected(), "middle");
	press(SCREEN_ESCAPE);
	ck_assert_str_eq(selected(), "small");
	screen_deinit(&screen);
}

HT_TEST(keys_move_within_the_rows)
{
	begin();
	press('k');
	ck_assert_str_eq(selected(), "large");
	press('j');
	press('j');
	press('j');
	ck_assert_str_eq(selected(), "small");
	press('k');
	ck_assert_str_eq(selected(), "middle");
	press('g');
	ck_assert_str_eq(selected(), "large");
	press(SCREEN_END);
	ck_assert_str_eq(selected(), "small");
	screen_deinit(&screen);
}

/* --- what is open ---------------------------------------------------------------------------- */

HT_TEST(enter_opens_and_closes_a_stack)
{
	begin();
	press(SCREEN_ENTER);
	ck_assert_uint_eq(screen.listing.count, 5);
	press(SCREEN_DOWN);
	press(SCREEN_DOWN);
	ck_assert_str_eq(selected(), "main");
	/* Enter on a line of the stack closes the stack, and selects its row. */
	press(SCREEN_ENTER);
	ck_assert_uint_eq(screen.listing.count, 3);
	ck_assert_str_eq(selected(), "large");
	press('l');
	press('l');
	ck_assert_uint_eq(screen.listing.count, 5);
	press(SCREEN_LEFT);
	press(SCREEN_LEFT);
	ck_assert_uint_eq(screen.listing.count, 3);
	screen_deinit(&screen);
}

HT_TEST(a_stack_stays_open_where_its_row_moves_to)
{
	begin();
	press(SCREEN_ENTER);
	now.row[0].sums.outstanding_bytes = 1;
	take();
	ck_assert_uint_eq(screen.listing.count, 5);
	ck_assert(screen.listing.row[2].is_open);
	ck_assert_uint_eq(screen.selected, 2);
	ck_assert_str_eq(selected(), "large");
	screen_deinit(&screen);
}

HT_TEST(bottom_up_opens_functions_and_their_sites)
{
	begin();
	toptable_site(&now, 400, "large", "other", 250);
	toptable_frame(&now, "large", "");
	take();
	ck_assert_uint_eq(screen.listing.count, 4);
	press('B');
	ck_assert_uint_eq(screen.listing.count, 3);
	press(SCREEN_RIGHT);
	ck_assert_uint_eq(screen.listing.count, 5);
	press(SCREEN_DOWN);
	press(SCREEN_RIGHT);
	ck_assert_uint_eq(screen.listing.count, 7);
	/* Left closes the site, and the second time the function. */
	press(SCREEN_LEFT);
	ck_assert_uint_eq(screen.listing.count, 5);
	press(SCREEN_LEFT);
	ck_assert_uint_eq(screen.listing.count, 3);
	ck_assert_uint_eq(screen.selected, 0);
	press('B');
	ck_assert_uint_eq(screen.listing.count, 4);
	screen_deinit(&screen);
}

HT_TEST(of_too_many_open_rows_the_first_closes)
{
	begin();
	for (uint64_t i = 0; i < SCREEN_OPEN_MAX; i++)
		screen.open[i] = 5000 + i;
	screen.open_count = SCREEN_OPEN_MAX;
	press(SCREEN_ENTER);
	ck_assert_uint_eq(screen.open_count, SCREEN_OPEN_MAX);
	ck_assert_uint_eq(screen.open[0], 5001);
	ck_assert_uint_eq(screen.open[SCREEN_OPEN_MAX - 1], 100);
	ck_assert_uint_eq(screen.listing.count, 5);
	screen_deinit(&screen);
}

/* --- columns, baseline, hold ----------------------------------------------------------------- */

HT_TEST(s_sorts_by_each_column_in_turn)
{
	begin();
	for (unsigned i = 1; i <= LISTING_SORTS; i++) {
		press('s');
		ck_assert_uint_eq(screen.sort, (LISTING_OUTSTANDING + i) % LISTING_SORTS);
	}
	screen_deinit(&screen);
}

HT_TEST(b_counts_from_now_and_again_from_the_start)
{
	begin();
	press('b');
	ck_assert_int_eq(screen.listing.row[0].figures.outstanding_bytes, 0);
	now.row[2].sums.outstanding_bytes += 7;
	now.snapshot.figures.time_ns += TOPTABLE_NS;
	take();
	ck_assert_str_eq(selected(), "small");
	ck_assert_int_eq(screen.listing.row[0].figures.outstanding_bytes, 7);
	press('b');
	ck_assert_str_eq(selected(), "large");
	ck_assert_int_eq(screen.listing.row[0].figures.outstanding_bytes, 300);
	screen_deinit(&screen);
}

HT_TEST(a_held_display_takes_no_figures)
{
	begin();
	press(' ');
	now.row[2].sums.outstanding_bytes = 1000;
	take();
	ck_assert_str_eq(selected(), "large");
	press(' ');
	take();
	ck_assert_str_eq(selected(), "small");
	screen_deinit(&screen);
}

/* --- typing ---------------------------------------------------------------------------------- */

HT_TEST(a_filter_holds_until_escape)
{
	begin();
	type("/midx");
	ck_assert_uint_eq(screen.listing.count, 3);
	press(SCREEN_BACKSPACE);
	press(SCREEN_ENTER);
	ck_assert_int_eq(screen.mode, SCREEN_TABLE);
	ck_assert_uint_eq(screen.listing.count, 1);
	take();
	ck_assert_uint_eq(screen.listing.count, 1);
	/* Typing a filter again begins with its text; Escape keeps the filter. */
	type("/zzz");
	press(SCREEN_ESCAPE);
	ck_assert_str_eq(screen.filter, "mid");
	ck_assert_uint_eq(screen.listing.count, 1);
	press(SCREEN_ESCAPE);
	ck_assert_uint_eq(screen.listing.count, 3);
	screen_deinit(&screen);
}

HT_TEST(typed_characters_are_whole)
{
	begin();
	press('m');
	press(0xe9);
	press(0x6f22);
	press(0x1f600);
	press('\t');
	press(SCREEN_UP);
	ck_assert_str_eq(screen.input, "\u00e9\u6f22\U0001f600");
	press(SCREEN_BACKSPACE);
	ck_assert_str_eq(screen.input, "\u00e9\u6f22");
	for (int i = 0; i < 5; i++)
		press(SCREEN_BACKSPACE);
	ck_assert_str_eq(screen.input, "");
	/* There is room for 255 bytes; a character is taken whole or not at all. */
	for (unsigned i = 0; i < SCREEN_INPUT_BYTES; i++)
		press(0x6f22);
	ck_assert_uint_eq(strlen(screen.input), 255);
	press('x');
	ck_assert_uint_eq(strlen(screen.input), 255);
	screen_deinit(&screen);
}

HT_TEST(what_is_typed_becomes_a_request)
{
	begin();
	type("mv2 q");
	ck_assert_int_eq(action, SCREEN_NOTHING);
	press(SCREEN_ENTER);
	ck_assert_int_eq(action, SCREEN_MARK);
	ck_assert_str_eq(screen.input, "v2 q");
	press('w');
	ck_assert_str_eq(screen.input, "heaptap.html");
	press(SCREEN_ENTER);
	ck_assert_int_eq(action, SCREEN_SAVE);
	press('w');
	press(0x15); /* Ctrl-U */
	ck_assert_str_eq(screen.input, "");
	press(SCREEN_ESCAPE);
	ck_assert_int_eq(action, SCREEN_NOTHING);
	/* An empty mark makes no request. */
	press('m');
	press(SCREEN_ENTER);
	ck_assert_int_eq(action, SCREEN_NOTHING);
	press('p');
	ck_assert_int_eq(action, SCREEN_PAUSE);
	press('q');
	ck_assert_int_eq(action, SCREEN_QUIT);
	press(0x110fff);
	ck_assert_int_eq(action, SCREEN_NOTHING);
	screen_deinit(&screen);
}

HT_SUITE("analyzer/top_screen_keys")