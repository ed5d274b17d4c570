/* SPDX-License-Identifier: Apache-2.0
 *
 * Puts events and records into the queue (held.h), writes them when they are old enough, and ends
 * the intervals of sums.
 */
#pragma once

#include "format/cull/state.h"

/* Ends the interval and begins interval `next`. The caller has taken all events before `end_tsc`.
 */
HT_MUST_CHECK
struct ht_err *delay_close_interval(struct cull *cull, uint64_t end_tsc, uint64_t next);

/* Ends intervals that are over at `time_ns`. Call it before an event of that time, or a SYNC, is
 * counted. */
static inline struct ht_err *delay_enter_time(struct cull *cull, uint64_t tsc, uint64_t time_ns)
{
	if (ht_likely(time_ns < cull->next_ns))
		return NULL;
	return delay_close_interval(cull, tsc, time_ns / TRACE_CULLED_NS);
}

/* Appends an event of this call to the queue; `first_ns` and `is_listed` as in struct held. `*ret`:
 * number of the element. */
HT_MUST_CHECK
struct ht_err *delay_event(struct cull *cull, const struct cull_call *call,
	const struct event *event, uint64_t first_ns, bool is_listed, uint32_t *ret);
/* As delay_event, for an event that is always written. */
HT_MUST_CHECK
struct ht_err *delay_listed(
	struct cull *cull, const struct cull_call *call, const struct event *event);
/* Writes the first element of the queue, which must not be empty, and removes it. */
HT_MUST_CHECK
struct ht_err *delay_write_first(struct cull *cull);
/* Writes the events and records that are at least cull_ns old at `now_ns`; all, if `now_ns` is
 * UINT64_MAX. */
HT_MUST_CHECK
struct ht_err *delay_write_old(struct cull *cull, uint64_t now_ns);
