/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/top/columns.h"

#include <inttypes.h>
#include <string.h>

#include "analyzer/ui/name.h"

#define NS_PER_S       1000000000ull
#define FUNCTION_LEAST 10u
#define BOUND_COLUMNS  7u

/* --- figures --------------------------------------------------------------------------------- */

/* A number with at most three significant digits, and a unit: 9.9K, 99.9K, 999K. */
static struct columns_figure scale(double value, double step, const char *units)
{
	struct columns_figure ret;
	size_t unit = 0;
	/* 999.5 would be printed as 1000. */
	for (; value >= 999.5 && units[unit + 1]; unit++)
		value /= step;
	const bool has_fraction = unit && value < 99.95;
	snprintf(ret.text, sizeof(ret.text), "%.*f%.1s", has_fraction, value < 1e9 ? value : 1e9,
		units[unit] == ' ' ? "" : units + unit);
	return ret;
}

struct columns_figure columns_bytes(uint64_t bytes)
{
	return scale((double)bytes, 1024, " KMGTPE");
}

struct columns_figure columns_rate(double per_s)
{
	return scale(per_s, 1000, " kMGTPE");
}

struct columns_figure columns_change(int64_t bytes)
{
	const uint64_t size = bytes < 0 ? -(uint64_t)bytes : (uint64_t)bytes;
	struct columns_figure ret = columns_bytes(size);
	if (!bytes)
		return ret;
	memmove(ret.text + 1, ret.text, strlen(ret.text) + 1);
	ret.text[0] = bytes < 0 ? '-' : '+';
	return ret;
}

struct columns_figure columns_bound(const struct text *text, double bytes)
{
	struct columns_figure ret = {""};
	if (!(bytes > 0))
		return ret;
	/* U+00B1 */
	snprintf(ret.text, sizeof(ret.text), "%s%.6s", text->has_utf8 ? "\xc2\xb1" : "+-",
		columns_bytes(bytes < 1e19 ? (uint64_t)bytes : UINT64_MAX).text);
	return ret;
}

struct columns_figure columns_age(uint64_t age_ns)
{
	struct columns_figure ret;
	const uint64_t age_s = age_ns / NS_PER_S;
	if (!age_ns)
		snprintf(ret.text, sizeof(ret.text), "-");
	else if (age_s < 600)
		snprintf(ret.text, sizeof(ret.text), "%" PRIu64 "s", age_s);
	else if (age_s < 600 * 60)
		snprintf(ret.text, sizeof(ret.text), "%" PRIu64 "m", age_s / 60);
	else if (age_s < 100 * 3600)
		snprintf(ret.text, sizeof(ret.text), "%" PRIu64 "h", age_s / 3600);
	else
		snprintf(ret.text, sizeof(ret.text), "%" PRIu64 "d", age_s / 86400 % 10000);
	return ret;
}

/* --- layout ---------------------------------------------------------------------------------- */

struct layout {
	/* The figures are estimates of a sample. A sample does not tell which blocks are temporary,
	 * so the bound replaces that column. */
	bool has_bound;
	bool has_rates, has_rest; /* allocations and calls; temporary, age and trend */
	size_t trend;
};

static struct layout layout_of(const struct line *line, const struct snapshot *now)
{
	const size_t columns = line_width(line->text);
	return (struct layout){
		.has_bound = now->figures.is_estimate && columns >= 56,
		.has_rates = columns >= 56,
		.has_rest = columns >= 76,
		.trend = columns >= 140	  ? 16
			 : columns >= 100 ? 10
					  : 6,
	};
}

static void put_cell(struct line *line, const char *string, size_t columns)
{
	line_right(line, string, columns);
	line_put(line, " ");
}

void columns_put_titles(struct line *line, const struct snapshot *now, bool has_baseline)
{
	const struct layout layout = layout_of(line, now);
	line_put(line, " ");
	put_cell(line, has_baseline ? "CHANGE" : "OUTSTAND", 8);
	if (layout.has_bound)
		put_cell(line, "BOUND", BOUND_COLUMNS);
	put_cell(line, "+/MIN", 7);
	if (layout.has_rates) {
		put_cell(line, "ALLOC/S", 7);
		put_cell(line, "CALLS/S", 7);
	}
	if (layout.has_rest) {
		if (!layout.has_bound)
			put_cell(line, "TEMP", 4);
		put_cell(line, "AGE", 4);
		line_put(line, "%-*s ", (int)layout.trend, "TREND");
	}
	line_put(line, "FUNCTION <- CALLER");
}

static void put_share(struct line *line, const struct listing_figures *figures)
{
	char share[16] = "-";
	if (figures->allocations)
		snprintf(share, sizeof(share), "%.0f%%",
			100 * (double)figures->temporary / (double)figures->allocations);
	put_cell(line, share, 4);
}

static void put_figures(struct line *line, const struct snapshot *now,
	const struct listing_row *row, bool has_baseline)
{
	const struct layout layout = layout_of(line, now);
	const struct listing_figures *figures = &row->figures;
	const int64_t bytes = figures->outstanding_bytes;
	line_put(line, "%s", row->is_growing ? "*" : " ");
	put_cell(line,
		has_baseline ? columns_change(bytes).text
			     : columns_bytes(bytes > 0 ? (uint64_t)bytes : 0).text,
		8);
	if (layout.has_bound)
		put_cell(line, columns_bound(line->text, figures->outstanding_bound_bytes).text,
			BOUND_COLUMNS);
	put_cell(line, columns_change(figures->per_minute_bytes).text, 7);
	if (layout.has_rates) {
		put_cell(line, columns_bytes((uint64_t)figures->bytes_per_s).text, 7);
		put_cell(line, columns_rate(figures->calls_per_s).text, 7);
	}
	if (!layout.has_rest)
		return;
	if (!layout.has_bound)
		put_share(line, figures);
	put_cell(line, columns_age(figures->oldest_ns).text, 4);
	const size_t from = line->columns;
	line_sparkline(line, row->trend, row->trend_count, 0, layout.trend);
	line_to(line, from + layout.trend + 1);
}

/* --- names ----------------------------------------------------------------------------------- */

static void put_name(struct line *line, const char *function, size_t columns)
{
	char name[NAME_BYTES];
	name_shorten(function, columns, name);
	line_foreign(line, name, columns);
}

static void put_caller(struct line *line, const char *caller)
{
	line_put(line, " <- ");
	if (line_left(line))
		put_name(line, caller, line_left(line));
}

/* Puts the function, and the script's function that calls it; without a script, its caller. */
static void put_short(struct line *line, const struct snapshot *now, const struct listing_row *row)
{
	const struct snapshot_row *site = row->site;
	const char *caller =
		snapshot_function(now, site->script != SNAPSHOT_NONE ? site->script : site->caller);
	const char *function = snapshot_function(now, site->function);
	const size_t left = line_left(line), arrow = strlen(" <- ");
	char name[NAME_BYTES];
	if (row->kind == LISTING_FUNCTION || !*caller || left < 2 * FUNCTION_LEAST + arrow) {
		put_name(line, function, left);
		return;
	}
	name_shorten(caller, left / 2, name);
	size_t wide = text_columns(name);
	if (wide > left / 2 - arrow)
		wide = left / 2 - arrow;
	put_name(line, function, left - wide - arrow);
	put_caller(line, caller);
}

static void put_frame(struct line *line, const struct snapshot *now, const struct listing_row *row)
{
	const char *place = snapshot_place(now, row->frame);
	const size_t left = line_left(line), wide = text_columns(place) + 2;
	if (left < 2 * FUNCTION_LEAST || wide + FUNCTION_LEAST > left || !*place) {
		put_name(line, snapshot_function(now, row->frame), left);
		return;
	}
	put_name(line, snapshot_function(now, row->frame), left - wide);
	line_put(line, "  ");
	line_foreign_styled(line, TEXT_DIM, place, line_left(line));
}

void columns_put_row(struct line *line, const struct snapshot *now, const struct listing_row *row,
	bool has_baseline)
{
	if (row->kind == LISTING_NOTE) {
		line_put(line, "%*s(the largest of %" PRIu32 " chains)", (int)(6 + 2 * row->depth),
			"", row->site->chains);
		return;
	}
	if (row->kind == LISTING_FRAME) {
		line_put(line, "%*s<- ", (int)(6 + 2 * row->depth), "");
		put_frame(line, now, row);
		return;
	}
	put_figures(line, now, row, has_baseline);
	line_put(line, "%*s", (int)(2 * row->depth), "");
	put_short(line, now, row);
}

void columns_put_names(struct line *line, const struct snapshot *now, const struct listing_row *row)
{
	const struct snapshot_row *site = row->site;
	const uint32_t text = row->kind == LISTING_FRAME ? row->frame : site->function;
	const char *place = snapshot_place(now, text);
	put_name(line, snapshot_function(now, text), line_left(line));
	if (*place && line_left(line) > 6) {
		line_put(line, "  ");
		line_foreign(line, place, line_left(line));
	}
	if (row->kind == LISTING_FRAME || row->kind == LISTING_NOTE)
		return;
	if (site->caller != SNAPSHOT_NONE && line_left(line) > FUNCTION_LEAST)
		put_caller(line, snapshot_function(now, site->caller));
	if (site->script != SNAPSHOT_NONE && line_left(line) > FUNCTION_LEAST)
		put_caller(line, snapshot_function(now, site->script));
}
