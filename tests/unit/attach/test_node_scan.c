/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/daemon/node_scan.h"

#include <malloc.h>
#include <sys/resource.h>

#include "format/event.h"
#include "tests/support/daemonstage.h"
#include "tests/support/ht_check.h"

static void publish_node(struct stage *stage, uint32_t id, uint32_t parent, uint64_t pc)
{
	struct abi_node *node = &stage->nodes[id];
	node->pc = pc;
	node->parent = parent;
	node->epoch = 7;
	node->flags = ABI_NODE_EXACT;
	stage_store(&node->ready, 1);
}

HT_TEST(nodes_come_once_and_after_their_parents)
{
	struct stage stage;
	struct heard heard;
	stage_init(&stage);
	stage_store(&stage.control->node_count, 5);
	publish_node(&stage, 1, 0, 0x11);
	publish_node(&stage, 3, 1, 0x33);
	publish_node(&stage, 4, 2, 0x44);
	publish_node(&stage, 5, 9, 0x55); /* a parent that cannot be */
	ck_no_err(receiver_drain(stage.receiver));
	ck_no_err(receiver_drain(stage.receiver));
	publish_node(&stage, 2, 1, 0x22);
	ck_no_err(receiver_drain(stage.receiver));
	ck_no_err(receiver_drain(stage.receiver));
	stage_hear(&stage, &heard);
	const uint32_t id[] = {1, 3, 5, 2, 4}, parent[] = {0, 1, 0, 1, 2};
	ck_assert_uint_eq(heard.node_count, HT_ARRAY_SIZE(id));
	for (uint32_t i = 0; i < heard.node_count; i++) {
		ck_assert_uint_eq(heard.node_id[i], id[i]);
		ck_assert_uint_eq(heard.node[i].parent, parent[i]);
		ck_assert_uint_eq(heard.node[i].pc, id[i] * 0x11);
		ck_assert_uint_eq(heard.node[i].epoch, 7);
		ck_assert_uint_eq(heard.node[i].flags, ABI_NODE_EXACT);
	}
	heard_deinit(&heard);
	stage_deinit(&stage);
}

struct seen {
	uint64_t count, pc, function;
};

static void see(void *context, struct rec_node *node, uint64_t function)
{
	struct seen *seen = context;
	seen->count++;
	seen->pc += node->pc;
	seen->function += function;
	if (node->flags & ABI_NODE_INTERPRETED)
		node->pc = 0x77;
}

HT_TEST(observer_sees_each_node)
{
	struct stage stage;
	struct node_scan scan;
	struct seen seen = {0};
	stage_init(&stage);
	ck_no_err(node_scan_init(&scan, stage.image, stage.sink));
	scan.observer = see;
	scan.context = &seen;
	uint64_t *functions = (uint64_t *)(stage.image + ABI_FUNCTIONS_OFF);
	stage_store(&functions[2], 0x700);
	stage_store(&stage.control->node_count, 2);
	publish_node(&stage, 2, 1, 0x22);
	ck_no_err(node_scan_put(&scan));
	ck_assert_uint_eq(seen.count, 0); /* a node is not put before its parent */
	publish_node(&stage, 1, 0, 0x11);
	ck_no_err(node_scan_put(&scan));
	ck_no_err(node_scan_put(&scan));
	ck_assert_uint_eq(seen.count, 2);
	ck_assert_uint_eq(seen.pc, 0x33);
	ck_assert_uint_eq(seen.function, 0x700);
	node_scan_deinit(&scan);
	stage_deinit(&stage);
}

/* The trace must not contain the address of an interpreted function. */
HT_TEST(interpreted_functions_become_numbers)
{
	for (unsigned asks = 0; asks < 2; asks++) {
		struct stage stage;
		struct heard heard;
		struct seen seen = {0};
		struct node_scan scan;
		stage_init(&stage);
		ck_no_err(node_scan_init(&scan, stage.image, stage.sink));
		scan.observer = asks ? see : NULL;
		scan.context = &seen;
		stage_store(&stage.control->node_count, 1);
		publish_node(&stage, 1, 0, 1ull << ABI_SCRIPTS_SHIFT | 0x1230);
		stage.nodes[1].flags = ABI_NODE_EXACT | ABI_NODE_INTERPRETED;
		ck_no_err(node_scan_put(&scan));
		ck_assert_uint_eq(seen.pc, asks ? 1ull << ABI_SCRIPTS_SHIFT | 0x1230 : 0);
		stage_hear(&stage, &heard);
		ck_assert_uint_eq(heard.node_count, 1);
		ck_assert_uint_eq(heard.node[0].pc, asks ? 0x77 : 0);
		ck_assert_uint_eq(heard.node[0].flags, ABI_NODE_EXACT | ABI_NODE_INTERPRETED);
		heard_deinit(&heard);
		node_scan_deinit(&scan);
		stage_deinit(&stage);
	}
}

HT_TEST(nodes_stand_before_the_events_that_name_them)
{
	struct stage stage;
	struct agent agent;
	struct heard heard;
	stage_init(&stage);
	agent_init(&agent, &stage, 0, 0x1000);
	for (uint32_t id = 1; id <= 9000; id++) {
		stage_store(&stage.control->node_count, id);
		publish_node(&stage, id, id - 1, id);
		agent_event(&agent, id);
		if (id % 100 == 0)
			agent_flush(&agent);
		if (id % 100 == 50)
			ck_no_err(receiver_drain(stage.receiver));
		if (id % 300 == 0)
			ck_no_err(receiver_read_socket(stage.receiver));
	}
	ck_no_err(receiver_drain_last(stage.receiver));
	stage_hear(&stage, &heard);
	heard_check_stream(&heard, &agent);
	ck_assert_uint_eq(heard.node_count, 9000);
	struct event_decoder decoder = {0};
	for (size_t i = 0; i < heard.piece_count; i++) {
		const struct piece *piece = &heard.piece[i];
		struct bytes in = bytes_of(agent.stream.data + piece->position, piece->length);
		struct event event;
		if (piece->flags & REC_EVENTS_RESTART)
			event_decoder_restart(&decoder);
		while (event_next(&decoder, &in, &event) == EVENT_OK)
			ck_assert_uint_le(event.stack, piece->nodes_before);
	}
	heard_deinit(&heard);
	agent_deinit(&agent);
	stage_deinit(&stage);
}

HT_TEST(all_nodes_that_fit_are_taken)
{
	struct stage stage;
	struct heard heard;
	stage_init(&stage);
	stage_store(&stage.control->node_count, UINT64_MAX);
	/* Memory behind the nodes must not be taken for a node. */
	publish_node(&stage, ABI_NODE_MAX, 1, 1);
	for (uint32_t id = 1; id < ABI_NODE_MAX; id++) {
		if (id % 1000)
			publish_node(&stage, id, id - 1, id);
	}
	ck_no_err(receiver_drain(stage.receiver));
	for (uint32_t id = 1000; id < ABI_NODE_MAX; id += 1000)
		publish_node(&stage, id, 0, id);
	ck_no_err(receiver_drain(stage.receiver));
	stage_hear(&stage, &heard);
	ck_assert_uint_eq(heard.node_count, ABI_NODE_MAX - 1);
	heard_deinit(&heard);
	stage_deinit(&stage);
}

#ifndef __SANITIZE_ADDRESS__
static void publish_chain(struct stage *stage, uint32_t from, uint32_t to)
{
	for (uint32_t id = from; id <= to; id++)
		publish_node(stage, id, id - 1, id);
	stage_store(&stage->control->node_count, to);
}

/* Drains once while the process can get no more memory than it has. */
static void drain_without_memory(struct stage *stage)
{
	struct rlimit before, none;
	ck_assert_int_eq(getrlimit(RLIMIT_AS, &before), 0);
	none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
	mallopt(M_TOP_PAD, 0);
	malloc_trim(0);
	ck_assert_int_eq(setrlimit(RLIMIT_AS, &none), 0);
	struct ht_err *err = receiver_drain(stage->receiver);
	ck_assert_int_eq(setrlimit(RLIMIT_AS, &before), 0);
	ck_err_says(err, HT_ERR_NOMEM, "no memory");
}
#endif

/* A record of 4096 nodes is 48 KiB: the queue takes one with the memory that it has, not two. */
HT_TEST(without_memory_nodes_come_later_and_events_are_counted)
{
#ifdef __SANITIZE_ADDRESS__
	printf("skipped: without_memory_nodes_come_later_and_events_are_counted: AddressSanitizer "
	       "ends a process without memory\n");
#else
	struct stage stage;
	struct agent agent;
	struct heard heard;
	stage_init(&stage);
	agent_init(&agent, &stage, 0, 0x1000);
	publish_chain(&stage, 1, 4096);
	agent_event(&agent, 4096);
	ck_no_err(receiver_drain(stage.receiver));
	publish_chain(&stage, 4097, 8192);
	agent_event(&agent, 8192);
	drain_without_memory(&stage);
	ck_assert_uint_eq(sink_dropped_events(stage.sink), 1);
	agent_event(&agent, 1);
	agent_flush(&agent);
	agent_events(&agent, 3);
	struct receiver_totals totals = stage_drain_last(&stage);
	ck_assert_uint_eq(totals.committed, 6);
	ck_assert_uint_eq(totals.events, 4);
	stage_hear(&stage, &heard);
	ck_assert_uint_eq(heard.node_count, 8192);
	ck_assert_uint_eq(heard.piece_count, 2);
	ck_assert_uint_eq(heard.piece[1].flags, REC_EVENTS_RESTART);
	heard_deinit(&heard);
	agent_deinit(&agent);
	stage_deinit(&stage);
#endif
}

HT_SUITE("attach/daemon/node_scan")
