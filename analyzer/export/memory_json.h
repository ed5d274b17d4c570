/* SPDX-License-Identifier: Apache-2.0
 *
 * The members "rss" and "memory" of the JSON report: which kinds of resident memory grew, and all
 * figures of memory at the window's start and end.
 */
#pragma once

#include <jansson.h>

#include "analyzer/cube/analysis.h"

/* NULL: out of memory. */
json_t *memory_json_rss(const struct analysis *analysis);
json_t *memory_json_figures(const struct analysis *analysis);
