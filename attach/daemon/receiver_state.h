/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of a receiver: receiver.c takes, receiver_totals.c adds up. No other file includes
 * this.
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

/* What the daemon knows of one slot's stream. */
struct stream {
	uint64_t taken;	 /* position up to which bytes were handed on, each once, or given up */
	uint64_t events; /* handed on */
	uint64_t buffer_events;	      /* of them out of the buffer that was last drained */
	struct event_decoder decoder; /* follows that buffer, to count */
	uint64_t complete_tsc;	      /* all events stamped before it were handed on or given up */
	uint32_t incarnation;	      /* the last one seen */
	bool is_claimed;	      /* a pass has looked at the slot */
	bool is_gapped;		      /* something was given up */
	bool is_cut; /* a part of the buffer that is being drained could not be put */
};

struct receiver {
	struct abi_control *control;
	struct abi_slot *slots;
	uint64_t *last; /* ABI_LAST_OFF */
	uint32_t slot_max;
	int socket_fd; /* -1: none, or at its end */
	struct sink *sink;
	struct node_scan nodes;
	struct single_thread sole;
	struct stream *streams;
	struct clock_pair origin;
	struct clock_pair tick;	  /* when abi_control.tick was last set */
	struct clock_pair synced; /* of the last SYNC */
	uint64_t synced_events;	  /* handed on until then */
	unsigned quiet;		  /* passes in a row without an event */
	uint64_t settled_tsc;	  /* no slot claimed later has an event stamped before this */
	uint64_t complete_tsc;	  /* of all streams, as of the last pass */
	uint64_t hold_tsc;
	uint32_t messages_left; /* that this pass may still read */
	bool is_final;		/* the last pass was made */
	uint64_t events, nested, threads;
	uint64_t damage; /* what the agent cannot have written or sent */
	struct {
		struct abi_message head;
		uint8_t body[ABI_BUFFER_BYTES];
	} buffer; /* the one copy between the target's memory or the socket and a trace block */
};

/* 0 for a slot that was never claimed: it is not even read, which would make its pages. */
static inline uint64_t slot_key(const struct receiver *receiver, uint32_t index)
{
	bool was_claimed = load(&receiver->control->claimed[index / 64]) >> index % 64 & 1;
	return was_claimed ? load(&receiver->slots[index].head.key) : 0;
}
