/* SPDX-License-Identifier: Apache-2.0
 *
 * The report for a person: what was captured, what it adds up to, who allocated it, what to mind
 * and what to type next.
 */
#pragma once

#include "analyzer/agg/analysis.h"
#include "analyzer/ui/text.h"

/* `limit`: stacks per list, 0 for all. `path`: the trace, as the user called it. */
HT_MUST_CHECK
struct ht_err *report_text_write(
	const struct text *text, struct analysis *analysis, const char *path, size_t limit);
