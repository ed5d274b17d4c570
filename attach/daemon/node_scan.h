/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies the stack nodes (abi_control.h) that the agent publishes in shared memory to the sink,
 * each once and after its parent.
 */
#pragma once

#include "attach/daemon/sink.h"
#include "format/abi_control.h"

/* Called for each node before it goes to the sink, and again if the sink failed. Replaces the
 * address in the node of an interpreted function by the function's number (record.h). `function`:
 * as in abi_control.h. */
typedef void node_scan_observer(void *context, struct rec_node *node, uint64_t function);

struct node_scan {
	const struct abi_control *control; /* shared */
	const uint64_t *functions;	   /* shared, ABI_NODE_MAX of them */
	const struct abi_node *nodes;	   /* shared, ABI_NODE_MAX of them */
	struct sink *sink;
	uint64_t *written; /* a bit for each node that is in the sink; the root is from the start */
	uint32_t low;	   /* every node below it is written */
	struct bytes_out body; /* of the REC_NODES under construction */
	uint32_t run_first, run_count;
	uint64_t damage;	      /* nodes that cannot be the agent's */
	node_scan_observer *observer; /* NULL: none */
	void *context;
};

/* `image` is the shared image, of at least abi_image_bytes(0) bytes; both are borrowed. */
HT_MUST_CHECK
struct ht_err *node_scan_init(struct node_scan *scan, const void *image, struct sink *sink);
void node_scan_deinit(struct node_scan *scan); /* accepts a zeroed one */

/*
 * Puts all nodes that were published when it was called. Nodes are claimed in order but published
 * in any: one that is not ready yet is passed over and looked at again the next time. Events that
 * were seen before the call refer only to nodes that are in the sink after it.
 */
HT_MUST_CHECK
struct ht_err *node_scan_put(struct node_scan *scan);
