/* SPDX-License-Identifier: Apache-2.0
 *
 * Text for a terminal: readable numbers, colours if wanted, and names of the target without control
 * characters, which the terminal would execute.
 */
#pragma once

#include <stdio.h>

#include "analyzer/ui/terminal.h"
#include "format/base.h"

struct text {
	FILE *out;
	bool has_colour;
	bool has_utf8;	  /* false: heaptap draws with ASCII only */
	unsigned columns; /* of a line; 0: no limit */
};

enum text_style { TEXT_BOLD, TEXT_DIM, TEXT_WARNING };

/* Room for any number that the functions below format. */
struct text_number {
	char text[40];
};

/* As terminal_of(out, TERMINAL_COLOR_AUTO) is. */
struct text text_to(FILE *out);
/* Writes to `out` what `terminal` will show; `out` may be a stream in memory. */
struct text text_for(FILE *out, const struct terminal *terminal);
/* Writes `string` in a style. */
void text_styled(const struct text *text, enum text_style style, const char *string);
/* Writes a string of foreign origin: control and direction-changing characters are left out, bytes
 * that are no UTF-8 become question marks; longer than `max` bytes, its middle is left out. */
void text_foreign(const struct text *text, const char *string, size_t max);

/* As text_foreign, but shortened to `columns` of a terminal, at least 5: "..." stands for the
 * middle of a longer one. Returns the columns that it takes: wide characters two, combining ones
 * none. */
unsigned text_elided(const struct text *text, const char *string, unsigned columns);
/* The columns of a string, as text_foreign writes it. */
size_t text_columns(const char *string);
/* Draws `count` values in at most `columns` cells of eight levels; a cell of several values shows
 * the highest. Values up to `lowest` get the lowest level, the highest value the highest. Returns
 * the number of cells. */
unsigned text_sparkline(const struct text *text, const uint64_t *value, size_t count,
	uint64_t lowest, unsigned columns);

struct text_number text_bytes(uint64_t bytes);	/* 512 B, 1.5 KiB, 12.0 MiB: powers of 1024 */
struct text_number text_count(uint64_t count);	/* 1,104,752 */
struct text_number text_time(uint64_t time_ns); /* 12.3 ms, 29.8 s, 5 min 12 s */
/* `part` as a percentage of `whole`; "-" if `whole` is 0. */
struct text_number text_percent(uint64_t part, uint64_t whole);
/* The bound of an estimate as a share of it: "+-3.1 %", "+-12 %", with one character for +- where
 * the terminal has it; "" if `bound` or `value` is 0. */
struct text_number text_bound(const struct text *text, int64_t value, int64_t bound);
#define TEXT_BOUND_COLUMNS 9u /* with blanks before it */

#define TEXT_CLOCK_BYTES 64u
/* The clock at `unix_ns` by `format` (strftime), local or in UTC; "?" if it has no such time. */
void text_clock(uint64_t unix_ns, bool is_utc, const char *format, char ret[TEXT_CLOCK_BYTES]);
