/* SPDX-License-Identifier: Apache-2.0
 *
 * Data and helpers that the sections of the text report share.
 */
#pragma once

#include "analyzer/ui/line.h"
#include "analyzer/views/breakdown.h"
#include "analyzer/views/suspects.h"
#include "analyzer/views/warnings.h"

struct page_options {
	const char *path;	     /* the trace, as the user named it */
	size_t limit;		     /* entries of each list, 0 for all */
	bool shows_stacks;	     /* the chain of each entry */
	bool is_brief;		     /* the first screen only */
	bool is_exact;		     /* sizes in bytes */
	bool is_utc;		     /* clock times */
	bool has_metric;	     /* one list instead of all */
	bool has_sort;		     /* the order of lists and tables */
	bool has_by;		     /* one table instead of lists */
	bool has_class;		     /* only rows of `of_class` */
	enum metric metric, sort;    /* set if has_metric, has_sort */
	enum breakdown_by by;	     /* likewise */
	enum suspect_class of_class; /* likewise */
};

struct page {
	const struct text *text;
	const struct view *view;
	const struct page_options *options;
	struct suspects suspects;
	/* by row of the view; SUSPECT_CLASS_COUNT: not classified */
	enum suspect_class *class_of_row;
	struct warnings warnings;
	size_t warnings_shown; /* warnings shown in full on the first screen */
};

/* True if nothing was recorded and no event was lost, or if the options select nothing. */
bool page_is_empty(const struct page *page);
/* Whether --class keeps a row of the view. */
bool page_has_row(const struct page *page, uint32_t row);
/* "1.5 MiB"; with --bytes "1,572,864 B". */
struct text_number page_bytes(const struct page *page, uint64_t bytes);
/* As page_bytes, with + or -. */
struct text_number page_change(const struct page *page, int64_t bytes);
/* A metric's value in its unit. */
struct text_number page_value(const struct page *page, enum metric metric, int64_t value);
/* "~" if the figure is an estimate; otherwise "". */
const char *page_mark(const struct page *page, enum metric metric);
/* A figure of a metric behind its page_mark. */
struct text_number page_marked(
	const struct page *page, enum metric metric, struct text_number figure);

/* Puts " " and the bound of a figure at 95 %; nothing if the capture is no sample. */
void page_put_bound(
	const struct page *page, struct line *line, const struct sums *sums, enum metric metric);

/* --- sections ---------------------------------------------------------------------------------
 */

/* Writes the first screen: at most 23 lines, so that a prompt fits too. */
void screen_write(struct page *page);
/* Writes only the title of the first screen; returns the number of its lines. */
size_t screen_write_title(const struct page *page);
/* Writes allocations, heap and RSS, one line each; with a pause or a settle time one line more. */
void figures_write(const struct page *page);
/* Writes the growing sites; if there are none, those with most outstanding bytes. At most 11 lines.
 */
void growth_write(const struct page *page);
/* Writes the lists: survivors (after a settle time), outstanding, peak, calls, temporary (not of a
 * sample); or only the list of --metric. */
HT_MUST_CHECK
struct ht_err *lists_write(const struct page *page);
HT_MUST_CHECK
struct ht_err *mappings_text_write(const struct page *page);
/* Writes the table of --by. */
HT_MUST_CHECK
struct ht_err *breakdown_text_write(const struct page *page);
