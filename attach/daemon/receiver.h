/* SPDX-License-Identifier: Apache-2.0
 *
 * Takes events, stacks and counters from the memory shared with the agent and from the agent's
 * socket, and puts them into the sink. Each thread record ("slot" here) has a stream of events; no
 * byte of a stream is taken twice. The target can write to the shared memory: each word is read
 * once, checked against its bounds and copied before use.
 */
#pragma once

#include "attach/daemon/node_scan.h"
#include "attach/daemon/receiver_totals.h"
#include "attach/daemon/sink.h"
#include "format/abi_control.h"

struct receiver;

struct receiver_options {
	void *image; /* the memfd of the image, mapped shared and writable; borrowed */
	uint64_t image_bytes;
	uint32_t slot_max;
	int socket_fd;	   /* the daemon's end, non-blocking; -1: shared memory only. Borrowed */
	struct sink *sink; /* borrowed */
	node_scan_observer *node_seen; /* or NULL; called by node_scan_put in the passes below */
	void *context;
};

HT_MUST_CHECK
struct ht_err *receiver_create(const struct receiver_options *options, struct receiver **ret);
void receiver_destroy(struct receiver *receiver);

/* The descriptor to poll for messages; -1 once the target closed its end, or when there is none. */
int receiver_socket(const struct receiver *receiver);
/* Takes messages that wait in the socket, at most 512 and while the sink has room. Does not
 * block. */
HT_MUST_CHECK
struct ht_err *receiver_read_socket(struct receiver *receiver);

/*
 * One pass: takes messages from the socket, new nodes, and partly filled buffers of all slots, and
 * publishes `drained` to each slot. Then puts a REC_SYNC, less often while no events come. Its
 * complete_tsc is exact: no event stamped before complete_tsc is missing from the sink or comes
 * later (a slot in ABI_SLOT_RECORDING keeps complete_tsc at that slot's last_tsc).
 */
HT_MUST_CHECK
struct ht_err *receiver_drain(struct receiver *receiver);

/* The last pass, after the detach or the target's end: takes everything that is committed by then,
 * and gives up bytes that never came. */
HT_MUST_CHECK
struct ht_err *receiver_drain_last(struct receiver *receiver);

/* From here on complete_tsc of each REC_SYNC is at most `tsc`; UINT64_MAX: no limit. Call it if a
 * later record must precede the events from `tsc` on: a reader delays events until a REC_SYNC has a
 * complete_tsc past them. */
void receiver_hold(struct receiver *receiver, uint64_t tsc);

/* Events that are recorded from now on have this time stamp or a later one; 0: not known yet. */
uint64_t receiver_settled(const struct receiver *receiver);
/* Did the last three passes receive no event? Then no record about their time is needed. */
bool receiver_is_quiet(const struct receiver *receiver);

struct receiver_thread {
	uint32_t slot;
	uint32_t tid;		 /* in the target's PID namespace */
	uint64_t thread_pointer; /* the slot's key without its flags and nesting level */
	uint64_t incarnation;
	uint64_t position; /* bytes committed to its stream: greater whenever the thread has
			      recorded */
	bool bounded;	   /* has valid stack bounds */
};

/* Calls `fn` for each slot that a thread owns, except for a slot that is changing its owner. A
 * thread has a slot for each nesting level; the owner may have ended since its last event. */
void receiver_each_thread(const struct receiver *receiver,
	void (*fn)(void *context, const struct receiver_thread *thread), void *context);
/* Tells the agent the primary stack [lo, hi) of that slot's thread. Does nothing if the slot has
 * another owner now. */
void receiver_set_bounds(
	struct receiver *receiver, const struct receiver_thread *thread, raddr_t lo, raddr_t hi);
/* The thread of that slot has ended: other threads may claim the slot, and continue its stream.
 * Does nothing if the slot has another owner now. */
void receiver_release(struct receiver *receiver, const struct receiver_thread *thread);
