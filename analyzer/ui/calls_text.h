/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts that the pages of tree, callers, flame and source share: first lines, figures, and names of
 * frames.
 */
#pragma once

#include "analyzer/ui/line.h"
#include "analyzer/ui/name.h"
#include "analyzer/views/calls.h"

struct calls_text {
	const struct text *text;
	const struct calls *calls;
	size_t limit;
	bool has_limit; /* `limit` is given; 0 shows all. If not given, a tree sums up entries below
			   calls_text_least, and callers have 20 entries a list */
	bool is_exact;	/* bytes without KiB and MiB */
};

/* Columns of calls_text_figures before the bound. */
#define CALLS_TEXT_FIGURES 20u

/* A value of the metric, with its sign and unit. */
struct text_number calls_text_value(const struct calls_text *page, int64_t value);
/* The share of `whole` in per cent; "-" if `whole` is 0. */
struct text_number calls_text_share(int64_t value, int64_t whole);
/* Columns of a bound: 0 if the capture is no sample. */
size_t calls_text_bound_columns(const struct calls_text *page);
/* The bound of a value, right-aligned in calls_text_bound_columns. */
void calls_text_bound(const struct calls_text *page, struct line *line, struct figure value);
/* Value and share of `whole`, right-aligned in CALLS_TEXT_FIGURES columns, then the bound. */
void calls_text_figures(
	const struct calls_text *page, struct line *line, struct figure value, int64_t whole);
/* Writes target, window and metric, and says how the figures are inexact. */
void calls_text_head(const struct calls_text *page);

/* Whether there is nothing to show; if so, prints a line that says it. */
bool calls_text_is_empty(const struct calls_text *page);

/* The name of a group of frames, shortened to `columns` if possible (name_shorten). */
void calls_text_name(
	const struct calls *calls, uint32_t group, size_t columns, char ret[NAME_BYTES]);
/* Fills the line except for `reserved` columns: the name of a group of frames, in at least 12
 * columns, and its file or module if there is room and it differs from that of `above` (a frame, or
 * NULL). */
void calls_text_frame(const struct calls_text *page, struct line *line, uint32_t group,
	const struct frame *above, size_t reserved);
/* As calls_text_frame for a node; the root and folded stacks have names too. */
void calls_text_node(const struct calls_text *page, struct line *line, uint32_t node,
	const struct frame *above, size_t reserved);
/* The least absolute value of an entry that is shown without a limit: 1 % of the root's total or of
 * its largest child, whichever is greater. */
int64_t calls_text_least(const struct calls *calls);
