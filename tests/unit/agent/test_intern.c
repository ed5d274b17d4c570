/* SPDX-License-Identifier: Apache-2.0
 *
 * intern_stack gives each stack an ID, whose nodes are that stack.
 */
#include "agent/intern.h"

#include <pthread.h>

#include "agent/step.h"
#include "tests/unit/agent/world.h"

#define EPOCH 3u

static uint32_t intern(uint16_t epoch, const uint64_t *frames, uint32_t count)
{
	bool cut;
	uint32_t id = intern_stack(world_config, epoch, frames, NULL, count, &cut);
	ck_assert(!cut);
	return id;
}

/* The stack that an id stands for must be `frames`. */
static void check_stack(uint32_t id, uint16_t epoch, const uint64_t *frames, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct abi_node *node = &world_nodes[id];
		ck_assert_uint_ne(id, 0);
		ck_assert_uint_eq(node->ready, 1);
		ck_assert_uint_eq(node->pc, frames[i] & ~(STEP_EXACT | STEP_INTERPRETED));
		ck_assert_uint_eq(node->flags,
			(frames[i] & STEP_EXACT ? ABI_NODE_EXACT : 0) |
				(frames[i] & STEP_INTERPRETED ? ABI_NODE_INTERPRETED : 0));
		ck_assert_uint_eq(node->epoch, epoch);
		ck_assert_uint_lt(node->parent, id);
		id = node->parent;
	}
	ck_assert_uint_eq(id, 0);
}

HT_TEST(same_stack_same_id)
{
	const uint64_t frames[] = {0x1000, 0x2000, 0x3000};
	world_make();
	uint32_t id = intern(EPOCH, frames, 3);
	check_stack(id, EPOCH, frames, 3);
	ck_assert_uint_eq(intern(EPOCH, frames, 3), id);
	ck_assert_uint_eq(world_control->node_count, 3);
}

HT_TEST(stacks_share_their_outer_frames)
{
	const uint64_t one[] = {0x1000, 0x2000, 0x3000};
	const uint64_t two[] = {0x1001, 0x2000, 0x3000};
	world_make();
	uint32_t a = intern(EPOCH, one, 3), b = intern(EPOCH, two, 3);
	ck_assert_uint_ne(a, b);
	ck_assert_uint_eq(world_nodes[a].parent, world_nodes[b].parent);
	ck_assert_uint_eq(world_control->node_count, 4);
	check_stack(b, EPOCH, two, 3);
	check_stack(intern(EPOCH, one + 1, 2), EPOCH, one + 1, 2);
	ck_assert_uint_eq(world_control->node_count, 4);
}

HT_TEST(epoch_and_exactness_make_new_nodes)
{
	const uint64_t frames[] = {0x1000, 0x2000};
	const uint64_t exact[] = {0x1000 | STEP_EXACT, 0x2000};
	world_make();
	uint32_t a = intern(EPOCH, frames, 2);
	uint32_t b = intern(EPOCH + 1, frames, 2);
	uint32_t c = intern(EPOCH, exact, 2);
	ck_assert(a != b && b != c && a != c);
	check_stack(a, EPOCH, frames, 2);
	check_stack(b, EPOCH + 1, frames, 2);
	check_stack(c, EPOCH, exact, 2);
}

HT_TEST(no_frames_is_the_root)
{
	bool cut;
	world_make();
	ck_assert_uint_eq(intern_stack(world_config, EPOCH, NULL, NULL, 0, &cut), 0);
}

HT_TEST(full_node_array_cuts_the_inner_frames)
{
	const uint64_t frames[] = {0x1000, 0x2000, 0x3000, 0x4000};
	bool cut;
	world_make();
	world_config->node_max = 3;
	uint32_t id = intern_stack(world_config, EPOCH, frames, NULL, 4, &cut);
	ck_assert(cut);
	check_stack(id, EPOCH, frames + 2, 2);
	ck_assert_uint_eq(intern_stack(world_config, EPOCH, frames, NULL, 4, &cut), id);
	ck_assert(cut);
	ck_assert_uint_eq(world_control->node_count, 2);
	ck_assert_uint_eq(world_nodes[3].ready, 0);
}

HT_TEST(full_table_ends_the_search)
{
	const uint64_t frames[] = {0x1000};
	bool cut;
	world_make();
	uint64_t *table = (uint64_t *)(world_image + ABI_TABLE_OFF);
	world_config->table_mask = 15;
	for (size_t i = 0; i < 16; i++)
		table[i] = ~0ull << ABI_NODE_BITS | 1; /* an improbable tag */
	ck_assert_uint_eq(intern_stack(world_config, EPOCH, frames, NULL, 1, &cut), 0);
	ck_assert(cut);
	ck_assert_uint_eq(world_control->node_count, 0);
}

HT_TEST(many_stacks)
{
	static uint32_t ids[20000];
	world_make();
	for (uint32_t i = 0; i < HT_ARRAY_SIZE(ids); i++) {
		const uint64_t frames[] = {0x1000 + i, 0x2000 + i % 100, 0x3000 + i % 7};
		ids[i] = intern(EPOCH, frames, 3);
	}
	for (uint32_t i = 0; i < HT_ARRAY_SIZE(ids); i++) {
		const uint64_t frames[] = {0x1000 + i, 0x2000 + i % 100, 0x3000 + i % 7};
		check_stack(ids[i], EPOCH, frames, 3);
		ck_assert_uint_eq(intern(EPOCH, frames, 3), ids[i]);
	}
}

#define THREADS 4u
#define STACKS	3000u

static uint32_t thread_ids[THREADS][STACKS];

static void *intern_all(void *argument)
{
	uint32_t *ids = argument;
	for (uint32_t i = 0; i < STACKS; i++) {
		const uint64_t frames[] = {0x1000 + i, 0x2000 + i / 10, 0x3000 + i / 100, 0x4000};
		bool cut;
		ids[i] = intern_stack(world_config, EPOCH, frames, NULL, 4, &cut);
	}
	return NULL;
}

HT_TEST(threads_agree)
{
	pthread_t threads[THREADS];
	world_make();
	for (uint32_t i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, intern_all, thread_ids[i]), 0);
	for (uint32_t i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	for (uint32_t i = 0; i < STACKS; i++) {
		const uint64_t frames[] = {0x1000 + i, 0x2000 + i / 10, 0x3000 + i / 100, 0x4000};
		uint32_t id = intern(EPOCH, frames, 4);
		check_stack(id, EPOCH, frames, 4);
		for (uint32_t k = 0; k < THREADS; k++)
			ck_assert_uint_eq(thread_ids[k][i], id);
	}
	/* Orphans of lost races are few. */
	ck_assert_uint_ge(world_control->node_count, STACKS + STACKS / 10 + STACKS / 100 + 1);
	ck_assert_uint_lt(world_control->node_count, STACKS * THREADS);
}

HT_SUITE("agent/intern")
