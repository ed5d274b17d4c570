/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies the stack nodes (abi_control.h) that the agent publishes in shared memory to the sink,
 * each once and after its parent.
 */
#pragma once

#include "attach/daemon/sink.h"
#include "format/abi_control.h"

/* Called for each node before it goes to the sink, and again after the sink has returned an error.
 * Replaces the address in the node of an interpreted function by the function's number (record.h).
 * `function`: as in abi_control.h. */
typedef void node_scan_observer(void *context, struct rec_node *node, uint64_t function);

struct node_scan {
	const struct abi_control *control; /* shared */
	const uint64_t *functions;	   /* shared, ABI_NODE_MAX of them */
	const struct abi_node *nodes;	   /* shared, ABI_NODE_MAX of them */
	struct sink *sink;
	uint64_t *written; /* a bit per node, set if the sink or `body` has it; the root's bit is
			      always set */
	uint32_t low;	   /* all nodes with smaller numbers are written */
	struct bytes_out body; /* nodes of the next REC_NODES record: run_count of them, from node
				  run_first on */
	uint32_t run_first, run_count;
	uint64_t damage;	      /* nodes that the agent cannot have published */
	node_scan_observer *observer; /* NULL: none */
	void *context;
};

/* `image` is the shared image, of at least abi_image_bytes(0) bytes; both are borrowed. */
HT_MUST_CHECK
struct ht_err *node_scan_init(struct node_scan *scan, const void *image, struct sink *sink);
void node_scan_deinit(struct node_scan *scan); /* accepts a zeroed one */

/*
 * Puts all nodes that were published before the call. The agent claims nodes in order, but
 * publishes them in any order: the scan skips a node that is not ready, and looks again in the next
 * call. Events that were read before the call refer only to nodes that are in the sink after it.
 * After an error the nodes of the lost record are put again by the next call.
 */
HT_MUST_CHECK
struct ht_err *node_scan_put(struct node_scan *scan);
