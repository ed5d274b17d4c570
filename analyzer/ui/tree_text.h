/* SPDX-License-Identifier: Apache-2.0
 *
 * A call tree as lines of text: what is small is summed up, and a function with one callee stands
 * above it on the same level, so that deep chains stay narrow.
 */
#pragma once

#include "analyzer/ui/calls_text.h"

HT_MUST_CHECK
struct ht_err *tree_text_write(const struct calls_text *page);
