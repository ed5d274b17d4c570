/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests what the cube adds up: against the ledger of a made-up program of several threads, after
 * buckets were joined, and after stacks were folded.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/views/parts.h"
#include "analyzer/views/stacks.h"
#include "tests/unit/analyzer/made.h"
#include "tests/unit/analyzer/scene.h"

#define BLOCKS 200u
#define STACKS 12u
#define STEPS  20000u

struct ledger_block {
	bool live;
	uint64_t size;
	unsigned lane, stack;
	uint64_t born; /* the lane's count of allocations, this one included */
};

struct ledger {
	struct sums total, stack[STACKS], lane[SCENE_LANES];
	uint64_t lane_frees[SCENE_LANES], lane_allocations[SCENE_LANES];
	uint64_t live_bytes, peak_bytes, peak_time_ns;
	uint64_t stack_live[STACKS];
	struct ledger_block block[BLOCKS];
};

static struct scene scene;
static struct analysis *analysis;
static struct view *view;
static struct ledger ledger;
static uint32_t node[STACKS];

static void finish(void)
{
	analysis = scene_analyze(&scene);
	view = scene_view(analysis, NULL);
}

static void end(void)
{
	view_destroy(view);
	analysis_destroy(analysis);
	scene_deinit(&scene);
}

static uint64_t addr_of(unsigned block)
{
	return 0x10000 + 0x1000 * (uint64_t)block;
}

static void book_alloc(unsigned b, unsigned lane, unsigned stack, uint64_t size)
{
	ledger.block[b] =
		(struct ledger_block){true, size, lane, stack, ++ledger.lane_allocations[lane]};
	struct sums *set[] = {&ledger.total, &ledger.stack[stack], &ledger.lane[lane]};
	for (unsigned i = 0; i < 3; i++) {
		set[i]->samples++;
		set[i]->allocations++;
		set[i]->allocated_bytes += size;
	}
	ledger.live_bytes += size;
	ledger.stack_live[stack] += size;
	if (ledger.live_bytes <= ledger.peak_bytes)
		return;
	ledger.peak_bytes = ledger.live_bytes;
	ledger.peak_time_ns = scene.now - SCENE_START_NS;
	for (unsigned i = 0; i < STACKS; i++)
		ledger.stack[i].peak_bytes = ledger.stack_live[i];
}

static void book_free(unsigned b, unsigned lane)
{
	struct ledger_block *block = &ledger.block[b];
	bool temporary = ledger.lane_allocations[block->lane] == block->born;
	struct sums *set[] = {
		&ledger.total, &ledger.stack[block->stack], &ledger.lane[block->lane]};
	for (unsigned i = 0; i < 3; i++) {
		set[i]->frees++;
		set[i]->freed_bytes += block->size;
		set[i]->temporary += temporary;
	}
	ledger.lane_frees[lane]++;
	ledger.live_bytes -= block->size;
	ledger.stack_live[block->stack] -= block->size;
	block->live = false;
}

/* Makes one random step of the program, in the trace and in the ledger. */
static void step(void)
{
	unsigned b = (unsigned)random() % BLOCKS, lane = (unsigned)random() % SCENE_LANES;
	unsigned stack = (unsigned)random() % STACKS;
	uint64_t size = (uint64_t)random() % 5000;
	if (!ledger.block[b].live) {
		scene_malloc(&scene, lane, addr_of(b), size, node[stack]);
		book_alloc(b, lane, stack, size);
	} else if (random() % 4) {
		scene_free(&scene, lane, addr_of(b), size);
		book_free(b, lane);
	} else if (random() % 2) {
		scene_realloc_begin(&scene, lane, addr_of(b), 0);
		scene_realloc_end(&scene, lane, addr_of(b), size, node[stack]);
		book_free(b, lane);
		book_alloc(b, lane, stack, size);
	} else {
		scene_realloc_begin(&scene, lane, addr_of(b), 0);
		scene_realloc_done(&scene, lane, ABI_EVENT_REALLOC_FAIL);
	}
	if (random() % 50 == 0)
		scene_flush(&scene, (unsigned)random() % SCENE_LANES);
	if (random() % 500 == 0)
		scene_sync(&scene);
}

static void play(unsigned seed)
{
	srandom(seed);
	scene_init(&scene);
	ledger = (struct ledger){0};
	for (unsigned i = 0; i < STACKS; i++)
		node[i] = tracebuild_node(&scene.trace, 0, 0x400000 + i);
	for (unsigned i = 0; i < STEPS; i++)
		step();
}

/* Compares what the ledger knows; test_window compares lifetimes. */
static void check_calls(const struct sums *got, const struct sums *want)
{
	ck_assert_uint_eq(got->samples, want->samples);
	ck_assert_uint_eq(got->allocations, want->allocations);
	ck_assert_uint_eq(got->allocated_bytes, want->allocated_bytes);
	ck_assert_uint_eq(got->frees, want->frees);
	ck_assert_uint_eq(got->freed_bytes, want->freed_bytes);
	ck_assert_uint_eq(got->temporary, want->temporary);
	ck_assert_int_eq(got->live_bytes, (int64_t)(want->allocated_bytes - want->freed_bytes));
	ck_assert_int_eq(got->growth_bytes, got->live_bytes);
}

static void check_stacks(void)
{
	struct stack *stack;
	size_t count;
	ck_no_err(stacks_find(view, METRIC_ALLOCATED, &stack, &count));
	ck_assert_uint_eq(count, STACKS);
	for (size_t i = 0; i < count; i++) {
		unsigned s = 0;
		while (node[s] != stack[i].node)
			s++;
		check_calls(&stack[i].sums, &ledger.stack[s]);
		ck_assert_uint_eq(stack[i].sums.peak_bytes, ledger.stack[s].peak_bytes);
		ck_assert_uint_eq(
			stack[i].calls[ABI_HOOK_MALLOC] + stack[i].calls[ABI_HOOK_REALLOC],
			ledger.stack[s].allocations);
	}
	free(stack);
}

static void check_threads(void)
{
	struct part *part;
	size_t count;
	ck_no_err(parts_find(view, PARTS_THREAD, &part, &count));
	ck_assert_uint_eq(count, SCENE_LANES);
	for (size_t i = 0; i < count; i++) {
		unsigned lane = analysis->model.threads.thread[part[i].key].tid - SCENE_TID(0);
		check_calls(&part[i].sums, &ledger.lane[lane]);
		ck_assert_uint_eq(
			analysis->cube.thread[part[i].key].frees, ledger.lane_frees[lane]);
	}
	free(part);
}

static void compare_with_ledger(unsigned seed)
{
	play(seed);
	finish();
	const struct cube *cube = &analysis->cube;
	check_calls(&view->total, &ledger.total);
	ck_assert_uint_eq(cube->total.allocations, ledger.total.allocations);
	ck_assert_uint_eq(cube->before_frees, 0);
	ck_assert_uint_eq(cube->peak_bytes, ledger.peak_bytes);
	ck_assert_uint_eq(view->total.peak_bytes, ledger.peak_bytes);
	/* Conversion to clock cycles and back may round by 1 ns. */
	ck_assert_uint_le(cube->peak_time_ns, ledger.peak_time_ns + 1);
	ck_assert_uint_ge(cube->peak_time_ns + 1, ledger.peak_time_ns);
	ck_assert_uint_eq(cube_live_bytes(cube), ledger.live_bytes);
	check_stacks();
	check_threads();
	end();
}

HT_TEST(the_trace_equals_the_ledger)
{
	for (unsigned seed = 1; seed <= 5; seed++)
		compare_with_ledger(seed);
}

static void check_parts(enum parts_by by)
{
	struct part *part;
	size_t count;
	struct sums sum = {0};
	ck_no_err(parts_find(view, by, &part, &count));
	for (size_t i = 0; i < count; i++)
		sums_add(&sum, &part[i].sums);
	made_check_sums(&sum, &view->total);
	free(part);
}

static void check_sums(void)
{
	const struct cube *cube = &analysis->cube;
	struct sums rows = {0};
	uint64_t frees = 0, lives = 0;
	check_parts(PARTS_THREAD);
	check_parts(PARTS_FUNCTION);
	check_parts(PARTS_SIZE);
	for (size_t i = 0; i < view->row_count; i++)
		sums_add(&rows, &view->row[i].sums);
	made_check_sums(&rows, &view->total);
	ck_assert_uint_eq(view->total.peak_bytes, cube->peak_bytes);
	ck_assert_uint_eq(view->total.allocations, cube->total.allocations);
	ck_assert_uint_eq(view->total.freed_bytes, cube->total.freed_bytes);
	for (unsigned i = 0; i < REPLAY_HOOKS; i++)
		frees += cube->function[i].frees;
	for (unsigned i = 0; i < CUBE_SIZE_CLASSES; i++)
		lives += cube->lifetime_blocks[i];
	ck_assert_uint_eq(frees, cube->total.frees);
	ck_assert_uint_eq(lives, cube->total.frees);
}

HT_TEST(parts_sum_up_to_the_total)
{
	play(7);
	finish();
	check_sums();
	end();
}

/* Puts a random event of a random thread at one of eight addresses, as no program would. */
static void step_madly(void)
{
	unsigned lane = (unsigned)random() % SCENE_LANES;
	uint64_t addr = addr_of((unsigned)random() % 8), size = (uint64_t)random() % 100;
	uint32_t stack = node[random() % STACKS];
	switch (random() % 6) {
	case 0:
	case 1:
		scene_malloc(&scene, lane, addr, size, stack);
		break;
	case 2:
		scene_free(&scene, lane, addr, size);
		break;
	case 3:
		scene_realloc_begin(&scene, lane, addr, size);
		break;
	case 4:
		scene_realloc_end(&scene, lane, addr, size, stack);
		break;
	case 5:
		scene_realloc_done(&scene, lane,
			random() % 2 ? ABI_EVENT_REALLOC_FAIL : ABI_EVENT_REALLOC_FREED);
		break;
	}
}

HT_TEST(sums_hold_for_events_that_make_no_sense)
{
	play(8);
	for (unsigned i = 0; i < STEPS; i++)
		step_madly();
	finish();
	const struct sums *total = &view->total;
	check_sums();
	ck_assert_uint_le(total->frees, total->allocations);
	ck_assert_uint_le(total->temporary, total->frees);
	ck_assert_uint_le(sums_outstanding_bytes(total), analysis->cube.peak_bytes);
	ck_assert_uint_gt(analysis->model.counts.inferred_frees, 0);
	end();
}

HT_TEST(the_first_moment_of_the_peak_counts)
{
	scene_init(&scene);
	uint32_t a = tracebuild_node(&scene.trace, 0, 0x1),
		 b = tracebuild_node(&scene.trace, 0, 0x2);
	scene_malloc(&scene, 0, 0x1000, 100, a);
	scene_free(&scene, 0, 0x1000, 100);
	scene_malloc(&scene, 0, 0x1000, 100, b); /* as high, but later */
	finish();
	ck_assert_uint_eq(analysis->cube.site[0].node, a);
	ck_assert_uint_eq(analysis->cube.site[0].peak_bytes, 100);
	ck_assert_uint_eq(analysis->cube.site[1].peak_bytes, 0);
	ck_assert_uint_eq(analysis->cube.peak_time_ns, SCENE_STEP_NS);
	ck_assert_uint_eq(analysis->cube.peak_blocks, 1);
	end();
}

HT_TEST(size_classes_have_whole_bits)
{
	ck_assert_uint_eq(cube_size_class(0), 0);
	ck_assert_uint_eq(cube_size_class(1), 1);
	ck_assert_uint_eq(cube_size_class(15), 4);
	ck_assert_uint_eq(cube_size_class(16), 5);
	ck_assert_uint_eq(cube_size_class(UINT64_MAX), 64);
}

/* --- joined buckets and folded stacks ----------------------------------------------------------
 */

static struct made made;
static struct cube cube;

static void play_made(uint32_t nodes, size_t cells_max)
{
	made = (struct made){.nodes = nodes, .gap_ns = 900000};
	cube = (struct cube){0};
	cube_init(&cube);
	cube.cells_max = cells_max;
	made_play(&made, 3, &cube);
}

/* Checks all figures by site, in two windows, against the list of all blocks. */
static void check_made(void)
{
	const uint32_t count = (uint32_t)cube.timeline.count;
	const struct window window[] = {{0, count}, {count / 3, count / 2}};
	made_find_sites(&made, &cube);
	for (size_t k = 0; k < HT_ARRAY_SIZE(window); k++) {
		struct sums *got, *want = calloc(cube.site_count, sizeof(*want));
		const struct window_peak peak = window_peak(&cube, window[k]);
		ck_no_err(window_sums(&cube, window[k], &got));
		for (size_t i = 0; i < made.count; i++) {
			struct sums *sums = &want[made.block[i].site];
			const bool is_at_peak = k ? made_is_live(&made, &cube, i, peak.bucket + 1)
						  : made.at_peak[i];
			made_add(&made, &cube, i, window[k], sums);
			sums->peak_bytes += is_at_peak * made_share(&made, i).bytes;
		}
		for (size_t i = 0; i < cube.site_count; i++)
			made_check_sums(&got[i], &want[i]);
		ck_assert_uint_eq(cube.peak_bytes, made.peak_bytes);
		free(got);
		free(want);
	}
}

HT_TEST(joined_buckets_have_the_same_sums)
{
	play_made(20, CUBE_CELLS_MAX);
	const uint64_t step_ns = cube.step_ns;
	ck_assert_uint_gt(step_ns, TIMELINE_FIRST_STEP_NS);
	for (unsigned i = 0; i < 5; i++)
		timeline_join(&cube.timeline);
	ck_no_err(cube_finish(&cube));
	ck_assert_uint_eq(cube.step_ns, step_ns << 5);
	check_made();
	cube_deinit(&cube);
}

/* A hostile trace: joins more buckets at once than a bucket's number has bits. */
HT_TEST(centuries_without_an_event)
{
	static const uint64_t gap_ns[] = {1ull << 50, 1ull << 58, 3ull << 60};
	for (size_t i = 0; i < HT_ARRAY_SIZE(gap_ns); i++) {
		scene_init(&scene);
		for (unsigned k = 0; k < 10; k++) {
			scene.now += 20 * TIMELINE_FIRST_STEP_NS;
			scene_malloc(&scene, 0, addr_of(k), 100, 0);
		}
		scene_free(&scene, 0, addr_of(0), 0);
		scene_sync(&scene);
		scene.now += gap_ns[i];
		scene_malloc(&scene, 0, addr_of(10), 1000, 0);
		finish();
		ck_assert_uint_eq(view->total.allocations, 11);
		ck_assert_int_eq(view->total.live_bytes, 1900);
		for (uint32_t k = 0; k < analysis->cube.cell_count; k++)
			ck_assert(analysis->cube.cell[k].bucket == 0 ||
				  analysis->cube.cell[k].bucket + 1u ==
					  analysis->cube.timeline.count);
		end();
	}
}

/* Checks that the cube counts the folded stacks (those that it counts at CUBE_OTHER) and the bytes
 * of their blocks. */
static void check_folded(void)
{
	bool is_folded[4096] = {false};
	uint64_t bytes = 0, stacks = 0;
	for (size_t i = 0; i < made.count; i++) {
		const uint32_t stack = made.block[i].block.stack % NODES_MAX;
		if (cube.site[made.block[i].site].node != CUBE_OTHER)
			continue;
		stacks += !is_folded[stack];
		is_folded[stack] = true;
		bytes += made.block[i].block.size;
	}
	ck_assert_uint_eq(cube.folded_stacks, stacks);
	ck_assert_uint_eq(cube.folded_bytes, bytes);
}

HT_TEST(folded_stacks_are_in_the_sums)
{
	play_made(1000, 2000);
	ck_no_err(cube_finish(&cube));
	check_made();
	check_folded();
	ck_assert_uint_gt(cube.folded_stacks, 100);
	ck_assert_uint_lt(cube.folded_stacks, 1000);
	ck_assert_uint_le(cube.cell_count, 2000 + cube.site_count);
	ck_assert_uint_ge(cube.timeline.count, CUBE_BUCKETS_MIN);
	cube_deinit(&cube);
}

HT_TEST(nothing_is_folded_while_there_is_room)
{
	play_made(1000, CUBE_CELLS_MAX);
	ck_no_err(cube_finish(&cube));
	check_made();
	ck_assert_uint_eq(cube.folded_stacks, 0);
	ck_assert_uint_eq(cube.folded_bytes, 0);
	cube_deinit(&cube);
}

static void allocate_one(uint32_t stack, uint64_t size, uint64_t time_ns)
{
	const struct replay_call call = {.time_ns = time_ns};
	struct live_block block = {.addr = 1, .size = size, .stack = stack, .birth_ns = time_ns};
	ck_no_err(cube_allocated(&cube, &call, &block));
}

/* 1,000 stacks have a cell in each of three buckets; stack 500 is the heaviest. */
HT_TEST(the_lightest_stacks_are_folded)
{
	cube = (struct cube){0};
	cube_init(&cube);
	cube.cells_max = 900;
	for (uint64_t round = 0; round < 3; round++)
		for (uint32_t i = 0; i < 1000; i++)
			allocate_one(i, i == 500 ? 5000 : i + 1, round * TIMELINE_FIRST_STEP_NS);
	ck_no_err(cube_finish(&cube));
	ck_assert_uint_gt(cube.folded_stacks, 400);
	ck_assert_uint_lt(cube.folded_stacks, 1000);
	ck_assert_uint_eq(cube.of_node.site[0], cube.other);
	ck_assert_uint_eq(cube.of_node.site[100], cube.other);
	ck_assert_uint_eq(cube.site[cube.of_node.site[500] - 1].node, 500);
	cube_deinit(&cube);
}

/* --- a program with as many stacks as anvil ----------------------------------------------------
 */

#define ANVIL_STACKS 276000u
#define ANVIL_CALLS  16000000u
#define ANVIL_STEP   3750u /* ns from one call to the next: a minute in all */

/* Chooses the stack of a call. A few stacks are called all the time, most of them a few times: rank
 * r is as frequent as r^-1.4 (Zipf), so that a tenth of the stacks has 97.5 % of the calls. In
 * traces of Node.js, rocksdb and Python it has more. Each stack is called at least once. */
static uint32_t anvil_stack(uint64_t *random, uint64_t call, uint32_t stacks)
{
	const double u = (double)((random_next(random) >> 11) + 1) * 0x1p-53;
	const double rank = fmin(pow(u, -2.5), stacks - 1);
	if (call % 16 == 0 && call / 16 < stacks)
		return (uint32_t)(call / 16);
	return (uint32_t)((uint64_t)rank * 2654435761u % stacks);
}

static void anvil_call(uint64_t *random, uint64_t time_ns, uint32_t stack, uint64_t *ret_bytes)
{
	/* A stack asks for one kind of object, now and then for a larger one. */
	const uint64_t large = random_below(random, 16) == 0;
	struct replay_call call = {.time_ns = time_ns, .thread = stack % 4};
	struct live_block block = {.addr = 1,
		.size = 16ull << (stack % 7 + large),
		.stack = stack,
		.thread = call.thread,
		.birth_ns = call.time_ns};
	ck_no_err(cube_allocated(&cube, &call, &block));
	call.time_ns += ANVIL_STEP / 2;
	if (random_below(random, 100))
		ck_no_err(cube_freed(&cube, &call, &block, false));
	*ret_bytes += block.size;
}

static void play_anvil(size_t cells_max, uint64_t *of_stack)
{
	uint64_t random = 4, bytes = 0;
	memset(of_stack, 0, ANVIL_STACKS * sizeof(*of_stack));
	cube = (struct cube){0};
	cube_init(&cube);
	cube.cells_max = cells_max;
	for (uint64_t i = 0; i < ANVIL_CALLS; i++) {
		const uint32_t stack = anvil_stack(&random, i, ANVIL_STACKS);
		anvil_call(&random, i * ANVIL_STEP, stack, &of_stack[stack]);
	}
	ck_no_err(cube_finish(&cube));
	for (uint32_t i = 0; i < ANVIL_STACKS; i++)
		bytes += of_stack[i];
	ck_assert_uint_eq(cube.total.allocated_bytes, bytes);
}

/* At most 1 % of the bytes is folded; with half as many cells, 3 %. A stack that has 0.5 % of the
 * bytes is never folded. */
HT_TEST(little_is_folded_of_276000_stacks)
{
	static const unsigned percent[] = {1, 3};
	uint64_t *of_stack = malloc(ANVIL_STACKS * sizeof(*of_stack));
	ck_assert_ptr_nonnull(of_stack);
	for (unsigned i = 0; i < HT_ARRAY_SIZE(percent); i++) {
		play_anvil(CUBE_CELLS_MAX >> i, of_stack);
		const uint64_t bytes = cube.total.allocated_bytes;
		ck_assert_uint_le(cube.folded_bytes * 100, bytes * percent[i]);
		ck_assert_uint_le(cube.cell_count, (CUBE_CELLS_MAX >> i) + cube.site_count);
		for (uint32_t k = 1; k < ANVIL_STACKS; k++)
			if (of_stack[k] >= bytes / 200)
				ck_assert_uint_eq(cube.site[cube.of_node.site[k] - 1].node, k);
		ck_assert(!i || cube.folded_stacks);
		cube_deinit(&cube);
	}
	free(of_stack);
}

HT_SUITE("analyzer/cube")
