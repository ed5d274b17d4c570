/* SPDX-License-Identifier: Apache-2.0
 *
 * A function with its callers, callees and lines, as text.
 */
#pragma once

#include "analyzer/ui/calls_text.h"
#include "analyzer/views/function.h"

/* Writes the functions that match a name, with their values. */
void callers_text_write_matches(
	const struct calls_text *page, const struct function_matches *matches);
void callers_text_write(const struct calls_text *page, const struct function_matches *matches,
	const struct function *callers);
/* Writes the function's name and its values. */
void callers_text_write_function(const struct calls_text *page,
	const struct function_matches *matches, const struct function *callers);
