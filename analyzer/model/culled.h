/* SPDX-License-Identifier: Apache-2.0
 *
 * CULLED records: sums of blocks without events, with their threads and stacks.
 */
#pragma once

#include "analyzer/model/nodes.h"
#include "analyzer/model/threads.h"
#include "format/cull/culled.h"

/* One entry of a CULLED record (format/cull/culled.h), or its head. */
struct model_culled {
	uint64_t time_ns;	       /* within the interval, since the window's start */
	const struct rec_culled *head; /* not NULL: the head, which comes before the entries */
	struct culled_entry entry;
	uint32_t thread; /* index of the thread; set for BLOCKS, PEAK and FREES */
	uint32_t stack;	 /* node id; set for BLOCKS and PEAK; 0: no stack, or its node is not in the
			    trace */
};

typedef struct ht_err *culled_observer(void *context, const struct model_culled *culled);

/* Passes the head and the entries of a record to the observer. Adds blocks whose stack is not in
 * the trace to `*unknown_stacks`. */
HT_MUST_CHECK
struct ht_err *culled_read(struct threads *threads, struct nodes *nodes,
	const struct rec_culled *rec, culled_observer *observer, void *context,
	uint64_t *unknown_stacks);
