/* SPDX-License-Identifier: Apache-2.0
 *
 * The report for a person. Its first screen says what grows and which code allocated it; lists,
 * tables and warnings in full follow.
 */
#pragma once

#include "analyzer/ui/page.h"

HT_MUST_CHECK
struct ht_err *report_text_write(
	const struct text *text, const struct view *view, const struct page_options *options);
