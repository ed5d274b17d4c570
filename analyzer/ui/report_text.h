/* SPDX-License-Identifier: Apache-2.0
 *
 * The report for a person: what was captured, what it adds up to, who allocated it, what to mind
 * and what to type next.
 */
#pragma once

#include "analyzer/ui/text.h"
#include "analyzer/views/view.h"

struct report_text_options {
	const char *path; /* the trace, as the user called it */
	size_t limit;	  /* stacks per list, 0 for all */
};

HT_MUST_CHECK
struct ht_err *report_text_write(const struct text *text, const struct view *view,
	const struct report_text_options *options);
