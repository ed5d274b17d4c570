/* SPDX-License-Identifier: Apache-2.0
 *
 * A call tree as lines of text. Small entries are summed up. The only callee of a function is
 * printed below it without more indent, so that deep chains stay narrow.
 */
#pragma once

#include "analyzer/ui/calls_text.h"

HT_MUST_CHECK
struct ht_err *tree_text_write(const struct calls_text *page);
