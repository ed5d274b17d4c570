/* SPDX-License-Identifier: Apache-2.0
 *
 * Source lines of a function, with their figures in the margin.
 */
#pragma once

#include "analyzer/symbols/source.h"
#include "analyzer/ui/calls_text.h"
#include "analyzer/views/function.h"

/* Lines of one file must be adjacent in `callers`. If a file is not found, only line numbers are
 * printed. */
HT_MUST_CHECK
struct ht_err *source_text_write(const struct calls_text *page,
	const struct function_matches *matches, const struct function *callers,
	const struct source_places *places);
