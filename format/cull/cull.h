/* SPDX-License-Identifier: Apache-2.0
 *
 * The filter of --cull: takes the records of a full trace and gives those of one in which blocks
 * that lived shorter than a time are sums (REC_CULLED). Everything is given late by that time. No
 * input or output here; input is hostile. Memory is bounded by live blocks, sites and streams
 * (DESIGN.md).
 */
#pragma once

#include "format/cull/options.h"

struct cull;

HT_MUST_CHECK
struct ht_err *cull_create(const struct cull_options *options, struct cull **ret);
void cull_destroy(struct cull *cull);
/* Takes the next record. A sample (CAPTURE.sample_bytes) is an error: its sums would need the size
 * of each block. */
HT_MUST_CHECK
struct ht_err *cull_take(struct cull *cull, const struct rec *rec);
/* Gives what is held, as at the end of the trace. An END record does so, too. */
HT_MUST_CHECK
struct ht_err *cull_finish(struct cull *cull);

struct cull_sizes {
	uint64_t live_blocks;
	uint64_t held_events;
	uint64_t sites;
	uint64_t bytes; /* of the tables of blocks and of held events, the filter's largest */
};

struct cull_sizes cull_sizes(const struct cull *cull);
