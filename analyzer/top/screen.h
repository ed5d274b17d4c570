/* SPDX-License-Identifier: Apache-2.0
 *
 * The interactive table: the user's selection and input, and the lines that show them. Independent
 * of a terminal: it receives keys and returns lines and actions.
 */
#pragma once

#include "analyzer/top/heading.h"

#define SCREEN_COLUMNS_LEAST 36u
#define SCREEN_ROWS_LEAST    8u
#define SCREEN_OPEN_MAX	     64u
#define SCREEN_INPUT_BYTES   256u

/* Keys that are no characters; characters are their code points. */
enum screen_key {
	SCREEN_UP = 0x110000,
	SCREEN_DOWN,
	SCREEN_LEFT,
	SCREEN_RIGHT,
	SCREEN_PAGE_UP,
	SCREEN_PAGE_DOWN,
	SCREEN_HOME,
	SCREEN_END,
	SCREEN_ENTER,
	SCREEN_ESCAPE,
	SCREEN_BACKSPACE,
};

/* Actions that a key requests from the caller. */
enum screen_action {
	SCREEN_NOTHING,
	SCREEN_QUIT,
	SCREEN_MARK,  /* with `input` */
	SCREEN_SAVE,  /* to the path `input` */
	SCREEN_PAUSE, /* or resume */
};

enum screen_mode { SCREEN_TABLE, SCREEN_HELP, SCREEN_FILTERING, SCREEN_MARKING, SCREEN_SAVING };

enum screen_style { SCREEN_PLAIN, SCREEN_BOLD, SCREEN_DIM, SCREEN_REVERSE, SCREEN_WARNING };

struct screen_line {
	const char *text; /* UTF-8, harmless, without a newline */
	enum screen_style style;
};

/* The lines of the terminal, from the top. */
struct screen_lines {
	struct screen_line *line;
	size_t count;
	bool has_cursor; /* at the end of the last line: the user types there */
	char *memory;
};

struct screen {
	enum screen_mode mode;
	enum listing_sort sort;
	bool is_by_function, is_held;
	char filter[SCREEN_INPUT_BYTES], input[SCREEN_INPUT_BYTES];
	uint64_t open[SCREEN_OPEN_MAX]; /* ids of rows that are open */
	size_t open_count;
	bool has_chosen; /* `chosen` stays selected when it moves; if false, the first row is
			    selected */
	uint64_t chosen;
	size_t selected, first; /* row of the listing; the first one that is visible */
	size_t help_first, page;
	struct listing listing;
	struct snapshot *now, *before, *baseline;
};

/* Begins with the order, filter and grouping of `options`. screen_deinit frees the screen. */
void screen_init(struct screen *screen, const struct listing_options *options);
void screen_deinit(struct screen *screen);
/* Shows a copy of the snapshot from now on, unless the user holds the display. */
HT_MUST_CHECK
struct ht_err *screen_take(struct screen *screen, const struct snapshot *now);
HT_MUST_CHECK
struct ht_err *screen_press(struct screen *screen, uint32_t key, enum screen_action *ret);
/* Draws at most terminal->rows lines. Adds the state of the display to `heading`; `message`, if not
 * empty, is the line above the last. Call screen_lines_deinit also after an error. */
HT_MUST_CHECK
struct ht_err *screen_draw(struct screen *screen, const struct terminal *terminal,
	const struct heading *heading, const char *message, struct screen_lines *ret);
void screen_lines_deinit(struct screen_lines *lines);
