/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests what events mean: each form of each call, threads that pass blocks on, inverted stamps,
 * losses.
 */
#include "format/abi_control.h"
#include "tests/unit/analyzer/scene.h"

#define P 0x5000u
#define Q 0x6000u

static struct scene scene;
static struct analysis *result;

static void begin(void)
{
	scene_init(&scene);
}

static const struct cube *analyze(void)
{
	result = scene_analyze(&scene);
	return &result->cube;
}

static void end(void)
{
	analysis_destroy(result);
	scene_deinit(&scene);
}

static void check_totals(const struct cube *cube, uint64_t allocations, uint64_t allocated_bytes,
	uint64_t frees, uint64_t freed_bytes)
{
	ck_assert_uint_eq(cube->total.allocations, allocations);
	ck_assert_uint_eq(cube->total.allocated_bytes, allocated_bytes);
	ck_assert_uint_eq(cube->total.frees, frees);
	ck_assert_uint_eq(cube->total.freed_bytes, freed_bytes);
}

HT_TEST(freed_bytes_are_requested_bytes)
{
	begin();
	scene_malloc(&scene, 0, P, 100, 0);
	scene_malloc(&scene, 0, Q, 7, 0);
	scene_free(&scene, 0, P, 104);
	const struct cube *cube = analyze();
	check_totals(cube, 2, 107, 1, 100);
	ck_assert_uint_eq(cube->before_frees, 0);
	ck_assert_uint_eq(cube->total.temporary, 0);
	ck_assert_uint_eq(result->model.counts.events, 3);
	end();
}

HT_TEST(frees_of_older_blocks_are_counted_apart)
{
	begin();
	scene_free(&scene, 0, P, 104);
	scene_free(&scene, 0, Q, 24);
	scene_free(&scene, 0, 0, 0);
	const struct cube *cube = analyze();
	check_totals(cube, 0, 0, 0, 0);
	ck_assert_uint_eq(cube->before_frees, 2);
	ck_assert_uint_eq(cube->before_freed_bytes, 128);
	end();
}

HT_TEST(a_realloc_is_a_free_and_an_allocation)
{
	begin();
	scene_malloc(&scene, 0, P, 100, 0);
	scene_realloc_begin(&scene, 0, P, 104);
	scene_realloc_end(&scene, 0, Q, 300, 0);
	scene_realloc_begin(&scene, 0, Q, 304);
	scene_realloc_end(&scene, 0, Q, 200, 0); /* in place */
	const struct cube *cube = analyze();
	check_totals(cube, 3, 600, 2, 400);
	ck_assert_uint_eq(cube->peak_bytes, 300);
	uint64_t by_realloc = 0;
	for (size_t i = 0; i < cube->cell_count; i++)
		if (cube_site_hook(&cube->site[cube->cell[i].site]) == ABI_HOOK_REALLOC)
			by_realloc += cube->cell[i].counts.allocations;
	ck_assert_uint_eq(by_realloc, 2);
	ck_assert_uint_eq(cube->function[ABI_HOOK_REALLOC].frees, 2);
	ck_assert_uint_eq(cube->total.temporary, 2);
	end();
}

HT_TEST(a_realloc_of_nothing_only_allocates)
{
	begin();
	scene_realloc_begin(&scene, 0, 0, 0);
	scene_realloc_end(&scene, 0, P, 10, 0);
	scene_alloc(&scene, 0, ABI_HOOK_REALLOC, Q, 10, 0);
	const struct cube *cube = analyze();
	check_totals(cube, 2, 20, 0, 0);
	ck_assert_uint_eq(cube->before_frees, 0);
	end();
}

HT_TEST(a_realloc_to_nothing_frees)
{
	begin();
	scene_malloc(&scene, 0, P, 100, 0);
	scene_realloc_begin(&scene, 0, P, 104);
	scene_realloc_done(&scene, 0, ABI_EVENT_REALLOC_FREED);
	const struct cube *cube = analyze();
	check_totals(cube, 1, 100, 1, 100);
	ck_assert_uint_eq(cube->function[ABI_HOOK_REALLOC].frees, 1);
	end();
}

HT_TEST(a_failed_realloc_changes_nothing)
{
	begin();
	scene_malloc(&scene, 0, P, 100, 0);
	scene_realloc_begin(&scene, 0, P, 104);
	scene_realloc_done(&scene, 0, ABI_EVENT_REALLOC_FAIL);
	scene_realloc_begin(&scene, 0, Q, 64);
	scene_realloc_done(&scene, 0, ABI_EVENT_REALLOC_FAIL);
	scene_free(&scene, 0, P, 104);
	const struct cube *cube = analyze();
	check_totals(cube, 1, 100, 1, 100);
	ck_assert_uint_eq(cube->before_frees, 0);
	ck_assert_uint_eq(cube->total.temporary, 1);
	end();
}

HT_TEST(a_realloc_of_an_older_block_counts_it_as_before)
{
	begin();
	scene_realloc_begin(&scene, 0, P, 104);
	scene_realloc_end(&scene, 0, Q, 200, 0);
	const struct cube *cube = analyze();
	check_totals(cube, 1, 200, 0, 0);
	ck_assert_uint_eq(cube->before_frees, 1);
	ck_assert_uint_eq(cube->before_freed_bytes, 104);
	end();
}

HT_TEST(a_realloc_under_way_at_the_end_keeps_its_block)
{
	begin();
	scene_malloc(&scene, 0, P, 100, 0);
	scene_realloc_begin(&scene, 0, P, 104);
	check_totals(analyze(), 1, 100, 0, 0);
	end();
}

HT_TEST(an_address_may_be_taken_while_its_realloc_is_under_way)
{
	begin();
	scene_malloc(&scene, 0, P, 100, 0);
	scene_realloc_begin(&scene, 0, P, 104);
	scene_malloc(&scene, 1, P, 50, 0);
	scene_realloc_end(&scene, 0, Q, 300, 0);
	const struct cube *cube = analyze();
	check_totals(cube, 3, 450, 1, 100);
	ck_assert_uint_eq(result->model.counts.inferred_frees, 0);
	end();
}

HT_TEST(a_realloc_whose_end_was_lost_is_taken_to_have_succeeded)
{
	begin();
	scene_malloc(&scene, 0, P, 100, 0);
	scene_realloc_begin(&scene, 0, P, 104);
	scene_malloc(&scene, 0, Q, 10, 0);
	check_totals(analyze(), 2, 110, 1, 100);
	end();
}

HT_TEST(streams_are_merged_by_time)
{
	begin();
	scene_malloc(&scene, 0, P, 100, 0);
	scene_free(&scene, 1, P, 104);
	scene_malloc(&scene, 0, P, 50, 0);
	scene_free(&scene, 1, P, 56);
	scene_flush(&scene, 1); /* before lane 0, whose blocks it frees */
	const struct cube *cube = analyze();
	check_totals(cube, 2, 150, 2, 150);
	ck_assert_uint_eq(cube->before_frees, 0);
	ck_assert_uint_eq(cube->peak_bytes, 100);
	end();
}

HT_TEST(an_inverted_free_applies_to_the_older_block)
{
	begin();
	scene_malloc(&scene, 0, P, 100, 0);
	scene_malloc(&scene, 1, P, 50, 0); /* stamped before the free that made P available */
	scene_free(&scene, 0, P, 104);
	const struct cube *cube = analyze();
	check_totals(cube, 2, 150, 1, 100);
	ck_assert_uint_eq(cube->before_frees, 0);
	ck_assert_uint_eq(cube->peak_bytes, 100);
	ck_assert_uint_eq(result->model.counts.inferred_frees, 1);
	ck_assert_uint_eq(result->model.counts.absorbed_frees, 1);
	end();
}

HT_TEST(the_new_owner_of_an_address_frees_its_own_block)
{
	begin();
	scene_malloc(&scene, 0, P, 100, 0);
	scene_malloc(&scene, 1, P, 50, 0);
	scene_free(&scene, 1, P, 56);  /* the newer block: stamped after its allocation */
	scene_free(&scene, 0, P, 104); /* the older block: stamped late */
	const struct cube *cube = analyze();
	check_totals(cube, 2, 150, 2, 150);
	ck_assert_uint_eq(cube->before_frees, 0);
	end();
}

HT_TEST(the_new_owner_of_an_address_does_not_free_the_older_block)
{
	begin();
	scene_malloc(&scene, 0, P, 100, 0);
	scene_malloc(&scene, 1, P, 50, 0); /* the free before it was lost */
	scene_free(&scene, 1, P, 56);
	check_totals(analyze(), 2, 150, 2, 150);
	ck_assert_uint_eq(result->model.counts.absorbed_frees, 0);
	end();
}

HT_TEST(a_free_long_after_a_lost_one_is_that_of_the_new_block)
{
	begin();
	scene_malloc(&scene, 0, P, 100, 0);
	scene_malloc(&scene, 1, P, 50, 0); /* the free before it was lost */
	scene.now += 1u << 25;
	scene_free(&scene, 0, P, 56);
	const struct cube *cube = analyze();
	check_totals(cube, 2, 150, 2, 150);
	ck_assert_uint_eq(result->model.counts.inferred_frees, 1);
	ck_assert_uint_eq(result->model.counts.absorbed_frees, 0);
	end();
}

HT_TEST(temporary_is_by_pointer_and_allocating_thread)
{
	begin();
	scene_malloc(&scene, 0, P, 8, 0);
	scene_malloc(&scene, 1, Q, 8, 0); /* another thread does not matter */
	scene_free(&scene, 0, P, 8);	  /* temporary */
	scene_free(&scene, 0, Q, 8);	  /* temporary, though freed elsewhere */
	scene_malloc(&scene, 0, P, 8, 0);
	scene_malloc(&scene, 0, Q, 8, 0);
	scene_free(&scene, 0, P, 8); /* Q came in between */
	scene_free(&scene, 0, Q, 8); /* temporary: nothing was allocated since */
	const struct cube *cube = analyze();
	ck_assert_uint_eq(cube->total.temporary, 3);
	end();
}

HT_TEST(an_unknown_stack_is_no_stack)
{
	begin();
	scene_malloc(&scene, 0, P, 8, 77);
	const struct cube *cube = analyze();
	ck_assert_uint_eq(cube->site_count, 1);
	ck_assert_uint_eq(cube->site[0].node, 0);
	ck_assert_uint_eq(result->model.counts.unknown_stacks, 1);
	end();
}

HT_TEST(an_allocation_at_address_0_is_ignored)
{
	begin();
	scene_malloc(&scene, 0, 0, 8, 0);
	check_totals(analyze(), 0, 0, 0, 0);
	ck_assert_uint_eq(result->model.counts.odd_events, 1);
	end();
}

/* --- interpreted functions --- */

static uint32_t interpreted_node(uint32_t parent, uint64_t number)
{
	struct bytes_out body = {0};
	uint32_t id = ++scene.trace.node_count;
	const struct rec_node node = {
		.pc = number, .parent = parent, .flags = ABI_NODE_EXACT | ABI_NODE_INTERPRETED};
	ck_no_err(rec_node_append(&body, &node));
	const struct rec rec = {.kind = REC_NODES,
		.nodes = {.first_id = id, .count = 1, .body = bytes_of(body.data, body.length)}};
	tracebuild_put(&scene.trace, &rec);
	bytes_out_deinit(&body);
	return id;
}

static void hold_until(uint64_t generation, uint64_t tsc)
{
	const struct rec rec = {
		.kind = REC_SCRIPTS, .scripts = {.generation = generation, .until_tsc = tsc}};
	tracebuild_put(&scene.trace, &rec);
}

static uint64_t allocations_at(const struct cube *cube, uint64_t number)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < cube->cell_count; i++) {
		const struct node *leaf =
			nodes_get(&result->model.nodes, cube->site[cube->cell[i].site].node);
		const struct node *node =
			leaf ? nodes_get(&result->model.nodes, leaf->parent) : NULL;
		if (node && node->flags & ABI_NODE_INTERPRETED && node->pc == number)
			sum += cube->cell[i].counts.allocations;
	}
	return sum;
}

/* A number that no longer holds, because its function's code may have moved, gives no frame;
 * numbers of other generations hold. */
HT_TEST(numbers_hold_until_the_trace_says)
{
	const uint64_t first = 1ull << 32 | 5, second = 2ull << 32 | 5;
	begin();
	uint32_t outer = tracebuild_node(&scene.trace, 0, 0x10);
	uint32_t one = tracebuild_node(&scene.trace, interpreted_node(outer, first), 0x20);
	uint32_t two = tracebuild_node(&scene.trace, interpreted_node(outer, second), 0x20);
	scene_malloc(&scene, 0, P, 1, one);
	scene_malloc(&scene, 0, P + 16, 1, one);
	hold_until(1, scene.now + 1);
	hold_until(1, scene.now - 1); /* does not lower the limit */
	scene_malloc(&scene, 0, P + 32, 1, one);
	scene_malloc(&scene, 0, P + 48, 1, two);
	scene_malloc(&scene, 0, P + 64, 1, outer);
	hold_until(2, scene.now);
	scene_sync(&scene);
	scene_malloc(&scene, 0, P + 80, 1, two);
	hold_until(ABI_SCRIPTS_MAX + 1, UINT64_MAX);
	const struct cube *cube = analyze();
	ck_assert_uint_eq(cube->total.allocations, 6);
	ck_assert_uint_eq(allocations_at(cube, first), 2);
	ck_assert_uint_eq(allocations_at(cube, second), 1);
	ck_assert_uint_eq(allocations_at(cube, 0), 2);
	end();
}

HT_SUITE("analyzer/replay")
