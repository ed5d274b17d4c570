/* SPDX-License-Identifier: Apache-2.0
 *
 * Takes events, stacks and counters out of the memory shared with the agent and off its socket,
 * each byte of each slot's stream exactly once, and hands them to the sink. Everything in shared
 * memory is hostile: words are read once, bounds-checked, copied before use.
 */
#pragma once

#include "attach/daemon/node_scan.h"
#include "attach/daemon/receiver_totals.h"
#include "attach/daemon/sink.h"
#include "format/abi_control.h"

struct receiver;

struct receiver_options {
	void *image; /* the memfd of the image, mapped shared and writable by the daemon */
	uint64_t image_bytes;
	uint32_t slot_max;
	int socket_fd;	   /* the daemon's end, non-blocking; -1: shared memory only. Borrowed */
	struct sink *sink; /* borrowed */
	node_scan_observer *node_seen; /* or NULL; called during the passes below */
	void *context;
};

HT_MUST_CHECK
struct ht_err *receiver_create(const struct receiver_options *options, struct receiver **ret);
void receiver_destroy(struct receiver *receiver);

/* The descriptor to poll for messages; -1 once the target closed its end, or when there is none. */
int receiver_socket(const struct receiver *receiver);
/* Reads what waits in the socket, without blocking. */
HT_MUST_CHECK
struct ht_err *receiver_read_socket(struct receiver *receiver);

/*
 * One pass over the shared memory: new nodes, partly filled buffers of all slots, and a REC_SYNC
 * whose complete_tsc is exact: no event stamped before it is missing from the sink or will come
 * later (a slot in ABI_SLOT_RECORDING holds it at its last_tsc). Publishes `drained` to each slot.
 */
HT_MUST_CHECK
struct ht_err *receiver_drain(struct receiver *receiver);

/* The last pass, when the agent can write no more (untapped and quiet, or the target is dead):
 * takes everything that is committed, accepts gaps. */
HT_MUST_CHECK
struct ht_err *receiver_drain_last(struct receiver *receiver);

/* From here on complete_tsc of each REC_SYNC is at most `tsc`; UINT64_MAX: no limit. Call it if a
 * later record must precede the events from `tsc` on: readers wait with those for a SYNC
 * that reaches their time. */
void receiver_hold(struct receiver *receiver, uint64_t tsc);

/* Events from now on have this time stamp or a later one; 0: that is not known yet. */
uint64_t receiver_settled(const struct receiver *receiver);
/* Did the last passes receive no event? Then no record about their time is needed. */
bool receiver_is_quiet(const struct receiver *receiver);

struct receiver_thread {
	uint32_t slot;
	uint32_t tid;		 /* as the target numbers it */
	uint64_t thread_pointer; /* the slot's key without level */
	uint64_t incarnation;
	uint64_t position; /* of its stream: another whenever it has recorded */
	bool bounded;	   /* has valid stack bounds */
};

/* Calls `fn` for each claimed slot: for names, stack bounds, and to find dead ones. */
void receiver_each_thread(const struct receiver *receiver,
	void (*fn)(void *context, const struct receiver_thread *thread), void *context);
/* Tells the agent the primary stack [lo, hi) of that slot's thread. */
void receiver_set_bounds(
	struct receiver *receiver, const struct receiver_thread *thread, raddr_t lo, raddr_t hi);
/* The thread of that slot is gone and its stream is drained: others may claim the slot. */
void receiver_release(struct receiver *receiver, const struct receiver_thread *thread);
