/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines of a table as text: chooses the columns that fit into the width, and prints them.
 */
#pragma once

#include "analyzer/top/listing.h"
#include "analyzer/ui/line.h"

/* Least width of a table: with fewer columns there is no room for a name. */
#define COLUMNS_LEAST 36u

/* Room for a figure of a column. */
struct columns_figure {
	char text[16];
};
/* "+-1.2M": the bound of an estimate; "" for 0. */
struct columns_figure columns_bound(const struct text *text, double bytes);
/* At most 5 characters, 6 with a sign: 512, 1.5K, 11.9M, 123G (powers of 1024). */
struct columns_figure columns_bytes(uint64_t bytes);
struct columns_figure columns_change(int64_t bytes);
/* 204, 1.2k, 28.0k, 3.4M (powers of 1000). */
struct columns_figure columns_rate(double per_s);
/* 98s, 12m, 30h, 5d; "-" for 0. */
struct columns_figure columns_age(uint64_t age_ns);

/* Puts the titles of the columns. `now` as for the rows below. */
void columns_put_titles(struct line *line, const struct snapshot *now, bool has_baseline);
/* Puts one row. */
void columns_put_row(struct line *line, const struct snapshot *now, const struct listing_row *row,
	bool has_baseline);
/* Puts the row's names as far as they fit: function, place, callers. */
void columns_put_names(
	struct line *line, const struct snapshot *now, const struct listing_row *row);
