/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/model/culled.h"

/* Finds the stack of an entry. */
static struct ht_err *find_stack(
	struct nodes *nodes, struct model_culled *culled, uint64_t *unknown_stacks)
{
	const uint64_t *number = culled->entry.number;
	culled->stack = 0;
	if (culled->entry.kind != CULLED_BLOCKS && culled->entry.kind != CULLED_PEAK)
		return NULL;
	/* In BLOCKS and PEAK, node and key have the same index. */
	const uint64_t node = number[CULLED_BLOCKS_NODE];
	if (node < NODES_MAX && nodes_get(nodes, (uint32_t)node))
		culled->stack = (uint32_t)node;
	if (node && !culled->stack && culled->entry.kind == CULLED_BLOCKS)
		*unknown_stacks += number[CULLED_BLOCKS_COUNT];
	if (!culled->stack || !(number[CULLED_BLOCKS_KEY] & CULLED_KEY_PLAIN))
		return NULL;
	return nodes_plain(nodes, culled->stack, &culled->stack);
}

struct ht_err *culled_read(struct threads *threads, struct nodes *nodes,
	const struct rec_culled *rec, culled_observer *observer, void *context,
	uint64_t *unknown_stacks)
{
	struct model_culled culled = {.time_ns = culled_time_ns(rec->interval), .head = rec};
	struct bytes body = rec->body;
	bool has_thread = false;
	HT_TRY(observer(context, &culled));
	culled.head = NULL;
	while (culled_next(&body, &culled.entry)) {
		const uint64_t *number = culled.entry.number;
		uint64_t until_tsc;
		if (culled.entry.kind == CULLED_THREAD) {
			HT_TRY(threads_index(threads, (uint32_t)number[CULLED_THREAD_TID],
				number[CULLED_THREAD_TSC], &culled.thread, &until_tsc));
			has_thread = true;
			continue;
		}
		/* Every entry but LIVES needs a THREAD entry before it. */
		if (!has_thread && culled.entry.kind != CULLED_LIVES)
			break;
		HT_TRY(find_stack(nodes, &culled, unknown_stacks));
		HT_TRY(observer(context, &culled));
	}
	return NULL;
}
