/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of a receiver, for receiver.c, which takes events, and receiver_totals.c, which adds
 * up counters. No other file includes this.
 */
#pragma once

#include "attach/daemon/node_scan.h"
#include "attach/daemon/single_thread.h"
#include "format/event.h"

#define load(at)	 __atomic_load_n(at, __ATOMIC_ACQUIRE)
#define store(at, value) __atomic_store_n(at, value, __ATOMIC_RELEASE)

struct clock_pair {
	uint64_t tsc, mono_ns;
};

/* The daemon's state of one slot's stream. */
struct stream {
	uint64_t taken;		/* earlier bytes were put into the sink, each once, or given up */
	uint64_t events;	/* put into the sink */
	uint64_t buffer_events; /* of these, events from the agent's buffer that was drained last */
	struct event_decoder decoder; /* decodes that buffer, to count its events */
	uint64_t complete_tsc; /* all events stamped before it were put into the sink or given up */
	uint32_t incarnation;  /* the last one seen */
	bool is_claimed;       /* a pass has found the slot claimed */
	bool is_gapped;	       /* bytes were given up */
	bool is_cut;	       /* a part of the buffer that is being drained could not be put */
};

struct receiver {
	struct abi_control *control;
	struct abi_slot *slots;
	uint64_t *last; /* ABI_LAST_OFF */
	uint32_t slot_max;
	int socket_fd; /* -1: none, or the target has closed its end */
	struct sink *sink;
	struct node_scan nodes;
	struct single_thread sole;
	struct stream *streams;
	struct clock_pair origin;
	struct clock_pair tick;	  /* when abi_control.tick was set last */
	struct clock_pair synced; /* of the last REC_SYNC */
	uint64_t synced_events;	  /* `events` at that time */
	unsigned quiet;		  /* passes in a row without an event */
	uint64_t settled_tsc;	  /* no slot claimed later has an event stamped before this */
	uint64_t complete_tsc; /* the earliest complete_tsc of all streams, after the last pass */
	uint64_t hold_tsc;
	uint32_t messages_left; /* how many messages this pass may still read */
	bool is_final;		/* the last pass has begun */
	uint64_t events, nested, threads;
	uint64_t damage; /* words and messages that the agent cannot have written */
	struct {
		struct abi_message head;
		uint8_t body[ABI_BUFFER_BYTES];
	} buffer; /* the one copy between the target's memory or the socket and a trace block */
};

/* Returns 0 for a slot that was never claimed, without reading it: a read would allocate its
 * page. */
static inline uint64_t slot_key(const struct receiver *receiver, uint32_t index)
{
	bool was_claimed = load(&receiver->control->claimed[index / 64]) >> index % 64 & 1;
	return was_claimed ? load(&receiver->slots[index].head.key) : 0;
}
