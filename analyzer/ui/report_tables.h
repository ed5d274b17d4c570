/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of the page: allocations by size, by function of the allocator, by thread.
 */
#pragma once

#include "analyzer/views/view.h"
#include "analyzer/ui/text.h"

HT_MUST_CHECK
struct ht_err *report_tables_write(const struct text *text, const struct view *view);
