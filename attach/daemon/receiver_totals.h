/* SPDX-License-Identifier: Apache-2.0
 *
 * Totals over all slots of a receiver: data received and lost.
 */
#pragma once

#include "format/abi_control.h"
#include "format/err.h"

struct receiver;

/*
 * Totals so far, over all slots. After receiver_drain_last they balance: committed = events +
 * sink_dropped_events() + lost[TIMEOUT] + lost[SOCKET]; the other losses were never committed.
 */
struct receiver_totals {
	uint64_t events;    /* in the trace, or on their way to it in the sink */
	uint64_t committed; /* events that the agent has recorded */
	uint64_t lost[ABI_LOSS_COUNT];
	uint64_t trunc[ABI_TRUNC_COUNT];
	uint64_t samples_lost; /* allocations that were drawn as samples, but not recorded */
	uint64_t mappings; /* recorded events of mappings; neither `events` nor `committed` counts
			      them */
	uint64_t failed_calls;
	uint64_t nested;  /* events in slots of nesting level 1 and up */
	uint64_t threads; /* threads that have recorded events */
	uint64_t damage;  /* words and messages that the agent cannot have written; 0 unless the
			     target wrote them */
};

/* Reads all slots, so do not call it in each tick. */
struct receiver_totals receiver_totals(const struct receiver *receiver);
uint64_t receiver_unknown_pcs(const struct receiver *receiver);
/* Puts the totals into the sink, as REC_LOSS records. */
HT_MUST_CHECK
struct ht_err *receiver_put_totals(struct receiver *receiver);
