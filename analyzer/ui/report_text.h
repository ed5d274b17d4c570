/* SPDX-License-Identifier: Apache-2.0
 *
 * The report for a person. Its first screen says what grows and which code allocated it; lists,
 * tables and warnings in full follow.
 */
#pragma once

#include "analyzer/ui/text.h"
#include "analyzer/views/breakdown.h"
#include "analyzer/views/suspects.h"

struct report_text_options {
	const char *path;	     /* the trace, as the user named it */
	size_t limit;		     /* entries of each list, 0 for all */
	bool shows_stacks;	     /* the chain of each entry */
	bool is_exact;		     /* sizes in bytes */
	bool is_utc;		     /* clock times */
	bool has_metric;	     /* one list instead of four */
	bool has_sort;		     /* the order of lists and tables */
	bool has_by;		     /* one table instead of lists */
	bool has_class;		     /* only rows of this class */
	enum metric metric, sort;    /* if they are given */
	enum breakdown_by by;	     /* likewise */
	enum suspect_class of_class; /* likewise */
};

HT_MUST_CHECK
struct ht_err *report_text_write(const struct text *text, const struct view *view,
	const struct report_text_options *options);
