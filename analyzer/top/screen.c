/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/top/screen.h"

#include <stdlib.h>
#include <string.h>

#define CTRL_U 0x15u

void screen_init(struct screen *screen, const struct listing_options *options)
{
	*screen = (struct screen){.sort = options->sort, .is_by_function = options->is_by_function};
	snprintf(screen->filter, sizeof(screen->filter), "%s",
		options->filter ? options->filter : "");
}

void screen_deinit(struct screen *screen)
{
	listing_deinit(&screen->listing);
	snapshot_destroy(screen->now);
	snapshot_destroy(screen->before);
	snapshot_destroy(screen->baseline);
}

/* --- rows ------------------------------------------------------------------------------------ */

static void find_selected(struct screen *screen)
{
	const struct listing *listing = &screen->listing;
	if (!screen->has_chosen)
		screen->selected = 0;
	for (size_t i = 0; i < listing->count && screen->has_chosen; i++)
		if (listing->row[i].id == screen->chosen) {
			screen->selected = i;
			break;
		}
	if (screen->selected >= listing->count)
		screen->selected = listing->count ? listing->count - 1 : 0;
}

/* Makes the rows again, for other snapshots or other options. */
static struct ht_err *list(struct screen *screen)
{
	const struct listing_options options = {
		.sort = screen->sort,
		.filter = screen->filter,
		.is_by_function = screen->is_by_function,
		.open = screen->open,
		.open_count = screen->open_count,
	};
	if (!screen->now)
		return NULL;
	listing_deinit(&screen->listing);
	struct ht_err *err = listing_make(
		screen->now, screen->before, screen->baseline, &options, &screen->listing);
	if (!err)
		find_selected(screen);
	return err;
}

struct ht_err *screen_take(struct screen *screen, const struct snapshot *now)
{
	struct snapshot *copy;
	if (screen->is_held)
		return NULL;
	HT_TRY(snapshot_copy(now, &copy));
	snapshot_follow(&screen->before, &screen->now, copy);
	return list(screen);
}

static const struct listing_row *selected_row(const struct screen *screen)
{
	return screen->selected < screen->listing.count ? &screen->listing.row[screen->selected]
							: NULL;
}

static void choose(struct screen *screen, size_t row)
{
	const size_t count = screen->listing.count;
	screen->selected = row < count ? row : count ? count - 1 : 0;
	screen->has_chosen = screen->selected != 0;
	if (count)
		screen->chosen = screen->listing.row[screen->selected].id;
}

/* The index of the row that contains line `row`: the row to close. */
static size_t owner_of(const struct screen *screen, size_t row)
{
	const struct listing_row *rows = screen->listing.row;
	const unsigned depth = rows[row].depth;
	while (row && (rows[row].depth >= depth || rows[row].kind >= LISTING_FRAME))
		row--;
	return row;
}

static struct ht_err *set_open(struct screen *screen, bool open)
{
	const struct listing_row *row = selected_row(screen);
	if (!row)
		return NULL;
	/* Closing a line of a chain closes the chain. */
	if (!open && !row->is_open && row->depth) {
		choose(screen, owner_of(screen, screen->selected));
		row = selected_row(screen);
	}
	if (open == row->is_open || row->kind >= LISTING_FRAME)
		return NULL;
	size_t kept = 0;
	for (size_t i = 0; i < screen->open_count; i++)
		if (screen->open[i] != row->id)
			screen->open[kept++] = screen->open[i];
	screen->open_count = kept;
	/* If SCREEN_OPEN_MAX rows are open, close the one that was opened first. */
	if (open && kept == SCREEN_OPEN_MAX)
		memmove(screen->open, screen->open + 1,
			--screen->open_count * sizeof(screen->open[0]));
	if (open)
		screen->open[screen->open_count++] = row->id;
	screen->has_chosen = true;
	screen->chosen = row->id;
	return list(screen);
}

static struct ht_err *toggle_open(struct screen *screen)
{
	const struct listing_row *row = selected_row(screen);
	return row ? set_open(screen, row->kind < LISTING_FRAME && !row->is_open) : NULL;
}

static struct ht_err *toggle_baseline(struct screen *screen)
{
	if (!screen->now)
		return NULL;
	if (!screen->baseline) {
		struct ht_err *err = snapshot_copy(screen->now, &screen->baseline);
		return err ? err : list(screen);
	}
	snapshot_destroy(screen->baseline);
	screen->baseline = NULL;
	return list(screen);
}

/* --- typing ---------------------------------------------------------------------------------- */

static void begin_input(struct screen *screen, enum screen_mode mode, const char *text)
{
	screen->mode = mode;
	snprintf(screen->input, sizeof(screen->input), "%s", text);
}

static void add_character(char input[SCREEN_INPUT_BYTES], uint32_t point)
{
	char *to = input + strlen(input);
	const uint8_t lead[] = {0, 0xc0, 0xe0, 0xf0};
	const size_t more = point < 0x80 ? 0 : point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
	if (point < ' ' || point == 0x7f || strlen(input) + more + 2 > SCREEN_INPUT_BYTES)
		return;
	for (size_t i = more; i > 0; i--, point >>= 6)
		to[i] = (char)(0x80 | (point & 0x3f));
	to[0] = (char)(lead[more] | point);
	to[more + 1] = '\0';
}

static void remove_character(char input[SCREEN_INPUT_BYTES])
{
	size_t length = strlen(input);
	while (length && ((uint8_t)input[length - 1] & 0xc0) == 0x80)
		length--;
	input[length ? length - 1 : 0] = '\0';
}

static struct ht_err *end_input(struct screen *screen, enum screen_action *ret)
{
	const enum screen_mode mode = screen->mode;
	screen->mode = SCREEN_TABLE;
	if (mode == SCREEN_FILTERING) {
		memcpy(screen->filter, screen->input, sizeof(screen->filter));
		return list(screen);
	}
	if (*screen->input)
		*ret = mode == SCREEN_MARKING ? SCREEN_MARK : SCREEN_SAVE;
	return NULL;
}

static struct ht_err *type(struct screen *screen, uint32_t key, enum screen_action *ret)
{
	if (key == SCREEN_ENTER)
		return end_input(screen, ret);
	if (key == SCREEN_ESCAPE)
		screen->mode = SCREEN_TABLE;
	else if (key == SCREEN_BACKSPACE)
		remove_character(screen->input);
	else if (key == CTRL_U)
		screen->input[0] = '\0';
	else if (key < SCREEN_UP)
		add_character(screen->input, key);
	return NULL;
}

/* --- keys of the table ----------------------------------------------------------------------- */

/* True: the key moved the selection. */
static bool move(struct screen *screen, uint32_t key)
{
	const size_t page = screen->page ? screen->page : 1, at = screen->selected;
	switch (key) {
	case 'j':
	case SCREEN_DOWN:
		choose(screen, at + 1);
		return true;
	case 'k':
	case SCREEN_UP:
		choose(screen, at ? at - 1 : 0);
		return true;
	case SCREEN_PAGE_DOWN:
		choose(screen, at + page);
		return true;
	case SCREEN_PAGE_UP:
		choose(screen, at > page ? at - page : 0);
		return true;
	case 'g':
	case SCREEN_HOME:
		choose(screen, 0);
		return true;
	case 'G':
	case SCREEN_END:
		choose(screen, SIZE_MAX);
		return true;
	default:
		return false;
	}
}

static struct ht_err *change(struct screen *screen, uint32_t key)
{
	switch (key) {
	case SCREEN_ENTER:
		return toggle_open(screen);
	case 'l':
	case SCREEN_RIGHT:
		return set_open(screen, true);
	case 'h':
	case SCREEN_LEFT:
		return set_open(screen, false);
	case 's':
		screen->sort = (screen->sort + 1) % LISTING_SORTS;
		return list(screen);
	case 'B':
		screen->is_by_function = !screen->is_by_function;
		return list(screen);
	case 'b':
		return toggle_baseline(screen);
	case ' ':
		screen->is_held = !screen->is_held;
		return NULL;
	case SCREEN_ESCAPE:
		screen->filter[0] = '\0';
		return list(screen);
	default:
		return NULL;
	}
}

static struct ht_err *press_in_table(struct screen *screen, uint32_t key, enum screen_action *ret)
{
	switch (key) {
	case 'q':
		*ret = SCREEN_QUIT;
		return NULL;
	case 'p':
		*ret = SCREEN_PAUSE;
		return NULL;
	case '?':
		screen->mode = SCREEN_HELP;
		screen->help_first = 0;
		return NULL;
	case '/':
		begin_input(screen, SCREEN_FILTERING, screen->filter);
		return NULL;
	case 'm':
		begin_input(screen, SCREEN_MARKING, "");
		return NULL;
	case 'w':
		begin_input(screen, SCREEN_SAVING, "heaptap.html");
		return NULL;
	default:
		return move(screen, key) ? NULL : change(screen, key);
	}
}

static void press_in_help(struct screen *screen, uint32_t key)
{
	if (key == 'j' || key == SCREEN_DOWN)
		screen->help_first++;
	else if (key == 'k' || key == SCREEN_UP)
		screen->help_first -= screen->help_first != 0;
	else
		screen->mode = SCREEN_TABLE;
}

struct ht_err *screen_press(struct screen *screen, uint32_t key, enum screen_action *ret)
{
	*ret = SCREEN_NOTHING;
	if (screen->mode == SCREEN_TABLE)
		return press_in_table(screen, key, ret);
	if (screen->mode != SCREEN_HELP)
		return type(screen, key, ret);
	press_in_help(screen, key);
	return NULL;
}
