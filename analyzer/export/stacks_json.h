/* SPDX-License-Identifier: Apache-2.0
 *
 * The members of the JSON report that have frames: suspects, mappings, stacks, breakdown, frames.
 */
#pragma once

#include "analyzer/export/json.h"
#include "analyzer/export/report_options.h"

/* An object with the figures of a set of blocks; NULL: no memory. */
json_t *stacks_json_sums(const struct view *view, const struct sums *sums);
/* Stacks are written one by one: memory does not grow with them. */
HT_MUST_CHECK
struct ht_err *stacks_json_write(
	struct json_writer *writer, const struct view *view, const struct report_options *options);
