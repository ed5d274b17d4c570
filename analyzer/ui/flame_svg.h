/* SPDX-License-Identifier: Apache-2.0
 *
 * A flame graph as one SVG file for browsers, with zoom and search in a script of its own
 * (flame.js). Names of the trace appear only in texts and attributes, never in the script, because
 * they are hostile.
 */
#pragma once

#include <stdio.h>

#include "analyzer/ui/calls_text.h"
#include "analyzer/views/flame.h"

/* `is_top_down`: the root is at the top. page->text is not used. */
HT_MUST_CHECK
struct ht_err *flame_svg_write(
	FILE *out, const struct calls_text *page, const struct flame *flame, bool is_top_down);
