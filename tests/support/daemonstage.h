/* SPDX-License-Identifier: Apache-2.0
 *
 * Daemon and target in one process, for tests of attach/daemon: a shared image, a socket with a
 * receiver at one end and simulated agents at the other, and a reader of the resulting trace. Every
 * function fails the running test on error.
 */
#pragma once

#include "attach/daemon/receiver.h"
#include "tests/support/eventbuild.h"

#define STAGE_SLOTS	   8u
#define STAGE_NODES_LISTED 64u

/* Stores a word of shared memory with the memory order that the agent uses. */
#define stage_store(at, value) __atomic_store_n(at, value, __ATOMIC_RELEASE)

struct stage {
	uint8_t *image;
	struct abi_control *control;
	struct abi_node *nodes;
	struct abi_slot *slots;
	int daemon_fd, agent_fd;
	char trace[4096];
	struct sink *sink;
	struct receiver *receiver;
};

void stage_init(struct stage *stage);
void stage_deinit(struct stage *stage);
/* Sends `head` and `length` bytes of `body` as one message, without checking them. */
void stage_send(
	const struct stage *stage, const struct abi_message *head, const void *body, size_t length);
struct receiver_totals stage_drain_last(struct stage *stage);

/* --- the trace --- */

struct piece {
	uint32_t slot;
	uint64_t position, flags, length;
	uint64_t syncs_before; /* REC_SYNC records before this piece in the trace */
	uint32_t nodes_before;
};

struct heard {
	struct bytes_out stream[STAGE_SLOTS]; /* the bodies of the slot's pieces, joined; zeros
						 where a piece is missing */
	struct piece *piece;
	size_t piece_count, piece_max;
	struct rec_sync *sync;
	size_t sync_count, sync_max;
	uint32_t node_id[STAGE_NODES_LISTED];
	struct rec_node node[STAGE_NODES_LISTED];
	uint32_t node_count; /* all nodes; may exceed STAGE_NODES_LISTED */
	uint64_t loss[REC_COUNTER_COUNT];
};

/* Completes the trace and reads it back. */
void stage_hear(struct stage *stage, struct heard *ret);
void heard_deinit(struct heard *heard);
void heard_check_piece(const struct heard *heard, size_t index, uint64_t position, uint64_t length,
	uint64_t flags);

/* --- agents --- */

struct stamp {
	uint64_t tsc, end; /* an event's time, and the offset of its end in the stream */
};

struct agent {
	struct stage *stage;
	uint32_t index;
	struct abi_slot *slot;
	struct eventbuild build;
	struct bytes_out stream; /* all events that the agent has committed */
	struct stamp *stamp;
	size_t stamp_count, stamp_max;
};

/* Lets a new thread with `key` claim thread record `index`, below STAGE_SLOTS. */
void agent_init(struct agent *agent, struct stage *stage, uint32_t index, uint64_t key);
void agent_deinit(struct agent *agent);
/* Records one event: by turns a free and an allocation with `stack`. */
void agent_event(struct agent *agent, uint32_t stack);
void agent_events(struct agent *agent, unsigned int count);
/* The two halves of a flush. agent_give_up_buffer without agent_send before it loses the buffer's
 * events. */
void agent_send(struct agent *agent);
void agent_give_up_buffer(struct agent *agent);
void agent_flush(struct agent *agent);
/* Fails the test unless the trace holds exactly the events that the agent has committed. */
void heard_check_stream(const struct heard *heard, const struct agent *agent);
