/* SPDX-License-Identifier: Apache-2.0
 *
 * Daemon and target in one process, for tests of attach/daemon: a shared image and a socket with a
 * receiver at one end and agents that keep to the protocol at the other, and a reader of the
 * resulting trace. Every function fails the running test on error.
 */
#pragma once

#include "attach/daemon/receiver.h"
#include "tests/support/eventbuild.h"

#define STAGE_SLOTS	   8u
#define STAGE_NODES_LISTED 64u

/* As the agent publishes a word of shared memory. */
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
/* Sends `head` and `length` bytes of `body` as one message, whatever they hold. */
void stage_send(
	const struct stage *stage, const struct abi_message *head, const void *body, size_t length);
struct receiver_totals stage_drain_last(struct stage *stage);

/* --- the trace --- */

struct piece {
	uint32_t slot;
	uint64_t position, flags, length;
	uint64_t syncs_before; /* REC_SYNCs that stand before it */
	uint32_t nodes_before;
};

struct heard {
	struct bytes_out stream[STAGE_SLOTS]; /* bodies in a row; a gap is filled with zeros */
	struct piece *piece;
	size_t piece_count, piece_max;
	struct rec_sync *sync;
	size_t sync_count, sync_max;
	uint32_t node_id[STAGE_NODES_LISTED];
	struct rec_node node[STAGE_NODES_LISTED];
	uint32_t node_count; /* may exceed what is listed */
	uint64_t loss[REC_COUNTER_COUNT];
};

/* Completes the trace and reads it back. */
void stage_hear(struct stage *stage, struct heard *ret);
void heard_deinit(struct heard *heard);
void heard_check_piece(const struct heard *heard, size_t index, uint64_t position, uint64_t length,
	uint64_t flags);

/* --- agents --- */

struct stamp {
	uint64_t tsc, end; /* of an event, and where it ends in the stream */
};

struct agent {
	struct stage *stage;
	uint32_t index;
	struct abi_slot *slot;
	struct eventbuild build;
	struct bytes_out stream; /* all that was committed */
	struct stamp *stamp;
	size_t stamp_count, stamp_max;
};

/* A new thread claims slot `index`. */
void agent_init(struct agent *agent, struct stage *stage, uint32_t index, uint64_t key);
void agent_deinit(struct agent *agent);
/* Records an allocation with `stack` or a free, in turn. */
void agent_event(struct agent *agent, uint32_t stack);
void agent_events(struct agent *agent, unsigned int count);
/* The two halves of a flush; the second alone loses what the buffer holds. */
void agent_send(struct agent *agent);
void agent_give_up_buffer(struct agent *agent);
void agent_flush(struct agent *agent);
/* The trace holds all that the agent committed. */
void heard_check_stream(const struct heard *heard, const struct agent *agent);
