/* SPDX-License-Identifier: Apache-2.0
 *
 * The filter of --cull: takes the records of a full trace and returns the records of a trace in
 * which blocks that lived shorter than a given time are only sums (REC_CULLED). Events and sums are
 * delayed by that time. The filter reads and writes no file; its input is hostile. Memory is
 * bounded by live blocks, held events, sites and streams (format/cull/DESIGN.md).
 */
#pragma once

#include "format/cull/emit.h"

struct cull;

/* `cull_ns`: at least 1. `put` receives each record; the views in it are valid only during the
 * call.
 */
HT_MUST_CHECK
struct ht_err *cull_create(uint64_t cull_ns, emit_put *put, void *context, struct cull **ret);
void cull_destroy(struct cull *cull);
/* Takes the next record; `rec` is needed only during the call. HT_ERR_USAGE for a sample
 * (CAPTURE.sample_bytes): its sums would need the size of each block. */
HT_MUST_CHECK
struct ht_err *cull_take(struct cull *cull, const struct rec *rec);
/* Puts all held events and sums, as at the end of the trace; later events and SYNC records are
 * ignored. An END record does the same. Idempotent. */
HT_MUST_CHECK
struct ht_err *cull_finish(struct cull *cull);

struct cull_sizes {
	uint64_t live_blocks;
	uint64_t bytes; /* of the two largest tables: live blocks and held events */
};

struct cull_sizes cull_sizes(const struct cull *cull);
