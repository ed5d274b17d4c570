/* SPDX-License-Identifier: Apache-2.0
 *
 * The report as text. The first screen shows what grows and which code allocated it; then follow
 * lists, tables and all warnings in full.
 */
#pragma once

#include "analyzer/ui/page.h"

HT_MUST_CHECK
struct ht_err *report_text_write(
	const struct text *text, const struct view *view, const struct page_options *options);
