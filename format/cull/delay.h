/* SPDX-License-Identifier: Apache-2.0
 *
 * Events and records on their way through the queue, and the intervals of sums.
 */
#pragma once

#include "format/cull/state.h"

/* Ends the interval; `next`: number of the one that begins. All events before `end_tsc` were taken.
 */
HT_MUST_CHECK
struct ht_err *delay_close_interval(struct cull *cull, uint64_t end_tsc, uint64_t next);

/* Call before an event, or a pass, of this time is counted. */
static inline struct ht_err *delay_enter_time(struct cull *cull, uint64_t tsc, uint64_t time_ns)
{
	if (ht_likely(time_ns < cull->next_ns))
		return NULL;
	return delay_close_interval(cull, tsc, time_ns / TRACE_CULLED_NS);
}

/* Appends an event of this call; `first_ns` and `is_listed` as in struct held. */
HT_MUST_CHECK
struct ht_err *delay_event(struct cull *cull, const struct cull_call *call,
	const struct event *event, uint64_t first_ns, bool is_listed, uint32_t *ret);
/* The same for an event that is written in any case. */
HT_MUST_CHECK
struct ht_err *delay_listed(
	struct cull *cull, const struct cull_call *call, const struct event *event);
/* Writes the first element of the queue. */
HT_MUST_CHECK
struct ht_err *delay_write_first(struct cull *cull);
/* Writes what is as old at `now_ns` as blocks must be. */
HT_MUST_CHECK
struct ht_err *delay_write_old(struct cull *cull, uint64_t now_ns);
