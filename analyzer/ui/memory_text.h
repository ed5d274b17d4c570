/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines of the text report about memory as a whole: the heap, including blocks from before the
 * window, and which kinds of resident memory grew.
 */
#pragma once

#include "analyzer/cube/analysis.h"
#include "analyzer/ui/text.h"

void memory_text_write(const struct text *text, const struct analysis *analysis);
