/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/daemon/node_scan.h"

#include <stdlib.h>

#define WORD_BITS	 64u
#define NODES_PER_RECORD 4096u
#define UNREADY_MAX	 65536u /* far more than there are threads that could be writing a node */

#define load(at) __atomic_load_n(at, __ATOMIC_ACQUIRE)

struct ht_err *node_scan_init(struct node_scan *scan, const void *image, struct sink *sink)
{
	const uint8_t *base = image;
	*scan = (struct node_scan){
		.control = (const void *)(base + ABI_CONTROL_OFF),
		.functions = (const void *)(base + ABI_FUNCTIONS_OFF),
		.nodes = (const void *)(base + ABI_NODES_OFF),
		.sink = sink,
		.written = calloc(ABI_NODE_MAX / WORD_BITS, sizeof(uint64_t)),
		.low = 1,
	};
	if (!scan->written)
		return ht_err_new(HT_ERR_NOMEM, "no memory for the stack nodes");
	scan->written[0] = 1;
	return NULL;
}

void node_scan_deinit(struct node_scan *scan)
{
	free(scan->written);
	bytes_out_deinit(&scan->body);
}

/* The next node from `id` on that is not written; may lie beyond the last one. */
static uint32_t next_unwritten(const struct node_scan *scan, uint32_t id)
{
	while (id < ABI_NODE_MAX) {
		uint64_t open = ~scan->written[id / WORD_BITS] >> id % WORD_BITS;
		if (open)
			return id + (uint32_t)__builtin_ctzll(open);
		id = (id / WORD_BITS + 1) * WORD_BITS;
	}
	return id;
}

static bool read_node(struct node_scan *scan, uint32_t id, struct rec_node *ret)
{
	const struct abi_node *node = &scan->nodes[id];
	if (load(&node->ready) != 1)
		return false;
	uint32_t parent = load(&node->parent);
	*ret = (struct rec_node){
		.pc = load(&node->pc),
		.parent = parent < id ? parent : 0,
		.epoch = load(&node->epoch),
		.flags = load(&node->flags) & (ABI_NODE_EXACT | ABI_NODE_INTERPRETED),
	};
	scan->damage +=
		parent >= id; /* the agent makes a parent first: the target has written this word */
	return scan->written[ret->parent / WORD_BITS] >> ret->parent % WORD_BITS & 1;
}

/* The sink did not take the record: put its nodes again with the next call. */
static void forget_run(struct node_scan *scan)
{
	for (uint32_t id = scan->run_first; id < scan->run_first + scan->run_count; id++)
		scan->written[id / WORD_BITS] &= ~(UINT64_C(1) << id % WORD_BITS);
	if (scan->run_count && scan->low > scan->run_first)
		scan->low = scan->run_first;
}

static struct ht_err *put_run(struct node_scan *scan)
{
	if (!scan->run_count)
		return NULL;
	struct rec rec = {
		.kind = REC_NODES,
		.nodes = {.first_id = scan->run_first,
			.count = scan->run_count,
			.body = bytes_of(scan->body.data, scan->body.length)},
	};
	struct ht_err *err = sink_put(scan->sink, &rec, 0);
	if (err)
		forget_run(scan);
	scan->run_count = 0;
	scan->body.length = 0;
	return err;
}

static struct ht_err *append(struct node_scan *scan, uint32_t id, struct rec_node *node)
{
	bool contiguous = scan->run_first + scan->run_count == id;
	if (scan->observer)
		scan->observer(scan->context, node, load(&scan->functions[id]));
	else if (node->flags & ABI_NODE_INTERPRETED)
		node->pc = 0;
	if (!contiguous || scan->run_count == NODES_PER_RECORD)
		HT_TRY(put_run(scan));
	HT_TRY(rec_node_append(&scan->body, node));
	if (!scan->run_count++)
		scan->run_first = id;
	scan->written[id / WORD_BITS] |= UINT64_C(1) << id % WORD_BITS;
	return NULL;
}

struct ht_err *node_scan_put(struct node_scan *scan)
{
	uint64_t count = load(&scan->control->node_count);
	uint32_t last = count < ABI_NODE_MAX ? (uint32_t)count : ABI_NODE_MAX - 1;
	uint32_t unready = 0;
	struct ht_err *err = NULL;
	scan->low = next_unwritten(scan, scan->low);
	for (uint32_t id = scan->low; id <= last && !err; id = next_unwritten(scan, id + 1)) {
		struct rec_node node;
		if (read_node(scan, id, &node))
			err = append(scan, id, &node);
		else if (++unready == UNREADY_MAX)
			break;
	}
	return err ? err : put_run(scan);
}
