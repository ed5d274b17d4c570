/* SPDX-License-Identifier: Apache-2.0
 *
 * Stack nodes from hostile records: no cycle, no id out of range, no endless memory.
 */
#include "analyzer/model/nodes.h"

#include "format/abi_control.h"
#include "tests/support/ht_check.h"

static struct nodes nodes;

/* Adds a record with one node. */
static void add(uint64_t id, struct rec_node node)
{
	struct bytes_out body = {0};
	ck_no_err(rec_node_append(&body, &node));
	const struct rec_nodes rec = {
		.first_id = id, .count = 1, .body = bytes_of(body.data, body.length)};
	ck_no_err(nodes_add(&nodes, &rec));
	bytes_out_deinit(&body);
}

HT_TEST(nodes_are_kept_by_id)
{
	add(1, (struct rec_node){.pc = 0x10});
	add(2, (struct rec_node){.pc = 0x20, .parent = 1, .epoch = 3});
	ck_assert_uint_eq(nodes_get(&nodes, 2)->pc, 0x20);
	ck_assert_uint_eq(nodes_get(&nodes, 2)->parent, 1);
	ck_assert_uint_eq(nodes_get(&nodes, 2)->epoch, 3);
	ck_assert_ptr_null(nodes_get(&nodes, 0));
	ck_assert_ptr_null(nodes_get(&nodes, 3));
	ck_assert_ptr_null(nodes_get(&nodes, UINT32_MAX));
	nodes_deinit(&nodes);
}

HT_TEST(a_parent_is_older_than_its_child)
{
	add(5, (struct rec_node){.parent = 5});
	add(6, (struct rec_node){.parent = 7});
	add(7, (struct rec_node){.parent = 6});
	ck_assert_ptr_null(nodes_get(&nodes, 5));
	ck_assert_ptr_null(nodes_get(&nodes, 6));
	ck_assert_ptr_nonnull(nodes_get(&nodes, 7)); /* its parent is unknown: the walk ends */
	ck_assert_uint_eq(nodes.rejected, 2);
	nodes_deinit(&nodes);
}

HT_TEST(huge_ids_are_rejected)
{
	add(0, (struct rec_node){.pc = 1});
	add(NODES_MAX, (struct rec_node){.pc = 1});
	add(UINT64_MAX, (struct rec_node){.pc = 1});
	ck_assert_uint_eq(nodes.rejected, 3);
	ck_assert_uint_eq(nodes.count, 0);
	nodes_deinit(&nodes);
}

HT_TEST(a_count_without_nodes_is_rejected_at_once)
{
	const struct rec_nodes rec = {.first_id = 1, .count = UINT64_MAX, .body = bytes_of("", 0)};
	ck_no_err(nodes_add(&nodes, &rec));
	ck_assert_uint_eq(nodes.rejected, 1);
	nodes_deinit(&nodes);
}

#define INTERPRETED(number) .pc = (number), .flags = ABI_NODE_EXACT | ABI_NODE_INTERPRETED

/* nodes_plain copies a stack from its outermost interpreted frame on, without numbers, and makes
 * each copy once. */
HT_TEST(a_stack_without_numbers)
{
	uint32_t plain, again, inner, none;
	add(1, (struct rec_node){.pc = 0x10});
	ck_assert_ptr_null(nodes.generations.of_node);
	add(2, (struct rec_node){INTERPRETED(3ull << 32 | 7), .parent = 1});
	add(3, (struct rec_node){.pc = 0x20, .parent = 2});
	add(4, (struct rec_node){INTERPRETED(0), .parent = 3});
	add(5, (struct rec_node){.pc = 0x30, .parent = 4});
	add(6, (struct rec_node){INTERPRETED(0), .parent = 1});
	ck_assert_uint_eq(generations_of(&nodes.generations, 1), 0);
	for (uint32_t id = 2; id <= 5; id++)
		ck_assert_uint_eq(generations_of(&nodes.generations, id), 3);
	ck_assert_uint_eq(generations_of(&nodes.generations, 6), 0);
	ck_assert_uint_eq(generations_of(&nodes.generations, 1000), 0);
	ck_no_err(nodes_plain(&nodes, 3, &plain));
	ck_no_err(nodes_plain(&nodes, 5, &inner));
	ck_no_err(nodes_plain(&nodes, 3, &again));
	ck_no_err(nodes_plain(&nodes, 1, &none));
	ck_assert_uint_eq(again, plain);
	ck_assert_uint_eq(none, 1);
	ck_assert_uint_eq(nodes.plain_count, 4);
	const uint64_t pcs[] = {0x30, 0, 0x20, 0, 0x10};
	uint32_t id = inner;
	for (size_t i = 0; i < HT_ARRAY_SIZE(pcs); i++) {
		const struct node *node = nodes_get(&nodes, id);
		ck_assert_uint_eq(node->pc, pcs[i]);
		ck_assert_uint_eq(node->flags != 0, i == 1 || i == 3);
		ck_assert_uint_eq(nodes_id(&nodes, nodes_index(&nodes, id)), id);
		ck_assert_uint_eq(generations_of(&nodes.generations, id), 0);
		id = node->parent;
	}
	ck_assert_uint_eq(id, 0);
	ck_assert_uint_eq(nodes_total(&nodes), 7 + 4);
	ck_assert_ptr_null(nodes_get(&nodes, NODES_MAX + 4));
	ck_assert_uint_eq(nodes_get(&nodes, 2)->pc, 3ull << 32 | 7);
	nodes_deinit(&nodes);
}

HT_TEST(a_return_address_is_looked_up_in_its_call)
{
	const struct node call = {.pc = 0x100}, signal = {.pc = 0x100, .flags = ABI_NODE_EXACT};
	const struct node nothing = {.pc = 0};
	ck_assert_uint_eq(node_lookup_pc(&call), 0xff);
	ck_assert_uint_eq(node_lookup_pc(&signal), 0x100);
	ck_assert_uint_eq(node_lookup_pc(&nothing), 0);
}

HT_SUITE("analyzer/nodes")
