/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines of the interactive table.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzer/top/columns.h"
#include "analyzer/top/screen.h"

#define LINES_ABOVE 4u /* title, totals, what grows, titles of the columns */
#define LINES_BELOW 2u /* the selected row's names or a message, and the keys */

static const char *const help[] = {
	"Columns",
	"  OUTSTAND  bytes allocated since the capture began and not freed yet",
	"  +/MIN     how they changed within the last minute",
	"  ALLOC/S   bytes allocated in a second; CALLS/S: allocations",
	"  TEMP      share of blocks freed before their thread allocates again",
	"  AGE       of the oldest block; TREND: outstanding bytes since the start",
	"  *         heaptap report would call it growing",
	"Keys",
	"  j k, arrows, PgUp PgDn, g G   move",
	"  Enter, l h                    open the stack of a row, close it",
	"  s                             sort by the next column",
	"  / TEXT                        show stacks with TEXT in a name; Esc: all",
	"  B                             bottom-up: functions; their callers are inside",
	"  b                             count from now on (baseline); again: from the start",
	"  m TEXT                        put a mark into the trace",
	"  w FILE                        write the page of heaptap html to FILE",
	"  Ctrl-U                        while you type: delete all of it",
	"  p                             pause and resume recording",
	"  Space                         hold the display",
	"  q, Ctrl-C                     end; a capture that top started ends too",
};

struct drawing {
	const struct terminal *terminal;
	struct text text;
	struct screen_lines *lines;
	size_t bytes;
	size_t room; /* lines that are left */
};

/* --- lines ----------------------------------------------------------------------------------- */

static bool begin(struct drawing *drawing, struct line *line)
{
	if (!drawing->room)
		return false;
	line_begin(line, &drawing->text);
	return true;
}

static void end(struct drawing *drawing, struct line *line, enum screen_style style)
{
	line_end(line);
	drawing->lines->line[drawing->lines->count++].style = style;
	drawing->room--;
}

static void put(struct drawing *drawing, enum screen_style style, const char *string)
{
	struct line line;
	if (!begin(drawing, &line))
		return;
	line_put(&line, "%s", string);
	end(drawing, &line, style);
}

/* --- parts ----------------------------------------------------------------------------------- */

static void draw_above(
	struct drawing *drawing, const struct screen *screen, const struct heading *heading)
{
	struct line line;
	if (begin(drawing, &line)) {
		heading_put_title(&line, heading, screen->now);
		end(drawing, &line, SCREEN_BOLD);
	}
	if (!screen->now) {
		put(drawing, SCREEN_PLAIN,
			heading->has_ended ? "The capture has ended before it recorded anything"
					   : "The first figures come in a moment");
		return;
	}
	if (begin(drawing, &line)) {
		heading_put_totals(&line, screen->now, &screen->listing.total);
		end(drawing, &line, SCREEN_PLAIN);
	}
	if (begin(drawing, &line)) {
		heading_put_verdict(&line, heading, screen->now);
		end(drawing, &line,
			heading->has_ended	       ? SCREEN_WARNING
			: screen->now->figures.growing ? SCREEN_BOLD
						       : SCREEN_PLAIN);
	}
	if (begin(drawing, &line)) {
		columns_put_titles(&line, screen->now, screen->baseline);
		end(drawing, &line, SCREEN_REVERSE);
	}
}

static void draw_row(struct drawing *drawing, const struct screen *screen, size_t at)
{
	const struct listing_row *row = &screen->listing.row[at];
	struct line line;
	if (!begin(drawing, &line))
		return;
	columns_put_row(&line, screen->now, row, screen->baseline);
	end(drawing, &line,
		at == screen->selected	     ? SCREEN_REVERSE
		: row->kind >= LISTING_FRAME ? SCREEN_DIM
		: row->is_growing	     ? SCREEN_BOLD
					     : SCREEN_PLAIN);
}

/* Moves the visible part so that the selected row is in it. */
static void scroll(struct screen *screen)
{
	const size_t count = screen->listing.count, page = screen->page;
	if (screen->selected < screen->first)
		screen->first = screen->selected;
	if (screen->selected >= screen->first + page)
		screen->first = screen->selected - page + 1;
	if (screen->first + page > count)
		screen->first = count > page ? count - page : 0;
}

static void draw_rows(struct drawing *drawing, struct screen *screen)
{
	screen->page = drawing->room - LINES_BELOW;
	if (!screen->now)
		return;
	scroll(screen);
	for (size_t i = 0; i < screen->page && screen->first + i < screen->listing.count; i++)
		draw_row(drawing, screen, screen->first + i);
	if (!screen->listing.count)
		put(drawing, SCREEN_DIM,
			*screen->filter ? "  no stack has this text; Esc shows all"
					: "  nothing has been allocated yet");
}

static void draw_help(struct drawing *drawing, struct screen *screen)
{
	const size_t count = HT_ARRAY_SIZE(help), room = drawing->room - 1;
	const size_t last = count > room ? count - room : 0;
	if (screen->help_first > last)
		screen->help_first = last;
	for (size_t i = screen->help_first; i < count && drawing->room > 1; i++)
		put(drawing, help[i][0] == ' ' ? SCREEN_PLAIN : SCREEN_BOLD, help[i]);
	while (drawing->room > 1)
		put(drawing, SCREEN_PLAIN, "");
	put(drawing, SCREEN_REVERSE,
		last ? "any key: back; j and k move" : "any key: back to the table");
}

static void draw_input(struct drawing *drawing, const struct screen *screen)
{
	static const char *const prompt[] = {[SCREEN_FILTERING] = "Filter: ",
		[SCREEN_MARKING] = "Mark: ",
		[SCREEN_SAVING] = "Write the page to: "};
	const char *text = screen->input;
	const size_t room = drawing->text.columns - strlen(prompt[screen->mode]) - 1;
	struct line line;
	if (!begin(drawing, &line))
		return;
	/* Show the end of the text, where the user types. */
	while (text_columns(text) > room)
		do
			text++;
		while (((uint8_t)*text & 0xc0) == 0x80);
	line_put(&line, "%s", prompt[screen->mode]);
	if (*text)
		line_foreign(&line, text, room);
	end(drawing, &line, SCREEN_BOLD);
	drawing->lines->has_cursor = true;
}

static void draw_keys(struct drawing *drawing, const struct screen *screen)
{
	struct line line;
	if (!begin(drawing, &line))
		return;
	line_put(&line, "q quit  ? help  s %s  / filter", listing_sort_names[screen->sort]);
	if (*screen->filter) {
		line_put(&line, ": ");
		line_foreign(&line, screen->filter, 20);
	}
	/* Keys that must be visible in 80 columns come first. */
	line_put(&line, "  B %s  m mark  w save  p pause  b %s  Enter stack",
		screen->is_by_function ? "by caller" : "bottom-up",
		screen->baseline ? "from start" : "baseline");
	end(drawing, &line, SCREEN_REVERSE);
}

static void draw_below(struct drawing *drawing, const struct screen *screen, const char *message)
{
	const size_t at = screen->selected;
	struct line line;
	while (drawing->room > LINES_BELOW)
		put(drawing, SCREEN_PLAIN, "");
	if (*message && begin(drawing, &line)) {
		line_foreign(&line, message, drawing->text.columns);
		end(drawing, &line, SCREEN_WARNING);
	} else if (at < screen->listing.count && begin(drawing, &line)) {
		columns_put_names(&line, screen->now, &screen->listing.row[at]);
		end(drawing, &line, SCREEN_DIM);
	} else {
		put(drawing, SCREEN_PLAIN, "");
	}
	if (screen->mode == SCREEN_TABLE)
		draw_keys(drawing, screen);
	else
		draw_input(drawing, screen);
}

static void draw_all(struct drawing *drawing, struct screen *screen, const struct heading *heading,
	const char *message)
{
	struct heading whole = *heading;
	whole.is_frozen = screen->is_held;
	whole.has_baseline = screen->baseline;
	whole.baseline_ns = screen->baseline ? screen->baseline->figures.time_ns : 0;
	if (drawing->terminal->columns < SCREEN_COLUMNS_LEAST ||
		drawing->terminal->rows < SCREEN_ROWS_LEAST) {
		put(drawing, SCREEN_WARNING, "too small: min 36x8");
		return;
	}
	if (screen->mode == SCREEN_HELP) {
		draw_help(drawing, screen);
		return;
	}
	draw_above(drawing, screen, &whole);
	draw_rows(drawing, screen);
	draw_below(drawing, screen, message);
}

/* --- the whole ------------------------------------------------------------------------------- */

/* Splits the printed text into strings, one per line. */
static bool split(struct screen_lines *lines)
{
	char *at = lines->memory;
	for (size_t i = 0; i < lines->count; i++) {
		char *newline = strchr(at, '\n');
		if (!newline)
			return false;
		*newline = '\0';
		lines->line[i].text = at;
		at = newline + 1;
	}
	return true;
}

struct ht_err *screen_draw(struct screen *screen, const struct terminal *terminal,
	const struct heading *heading, const char *message, struct screen_lines *ret)
{
	struct drawing drawing = {.terminal = terminal, .lines = ret, .room = terminal->rows};
	*ret = (struct screen_lines){.line = calloc(terminal->rows + 1, sizeof(*ret->line))};
	FILE *out = open_memstream(&ret->memory, &drawing.bytes);
	bool is_whole = ret->line && out;
	if (is_whole) {
		drawing.text = text_for(out, terminal);
		drawing.text.has_colour = false;
		draw_all(&drawing, screen, heading, message);
	}
	is_whole = out && fclose(out) == 0 && is_whole && ret->memory && split(ret);
	return is_whole ? NULL : ht_err_new(HT_ERR_NOMEM, "out of memory for the screen");
}

void screen_lines_deinit(struct screen_lines *lines)
{
	free(lines->line);
	free(lines->memory);
}
