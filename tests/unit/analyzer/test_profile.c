/* SPDX-License-Identifier: Apache-2.0
 *
 * The sums of a window against a ledger: a made-up program of several threads keeps its own books.
 */
#include <stdlib.h>

#include "tests/unit/analyzer/scene.h"

#define BLOCKS 200u
#define STACKS 12u
#define STEPS  20000u

struct ledger_block {
	bool live;
	uint64_t size;
	unsigned lane, stack;
	uint64_t born; /* the lane's count of allocations with it */
};

struct ledger {
	struct metrics total, stack[STACKS], lane[SCENE_LANES];
	uint64_t lane_frees[SCENE_LANES], lane_allocations[SCENE_LANES];
	uint64_t live_bytes, peak_bytes, peak_time_ns;
	uint64_t stack_live[STACKS], stack_peak[STACKS];
	struct ledger_block block[BLOCKS];
};

static struct scene scene;
static struct ledger ledger;
static uint32_t node[STACKS];

static uint64_t addr_of(unsigned block)
{
	return 0x10000 + 0x1000 * (uint64_t)block;
}

static void book_alloc(unsigned b, unsigned lane, unsigned stack, uint64_t size)
{
	ledger.block[b] =
		(struct ledger_block){true, size, lane, stack, ++ledger.lane_allocations[lane]};
	struct metrics *set[] = {&ledger.total, &ledger.stack[stack], &ledger.lane[lane]};
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
		ledger.stack_peak[i] = ledger.stack_live[i];
}

static void book_free(unsigned b, unsigned lane)
{
	struct ledger_block *block = &ledger.block[b];
	bool temporary = ledger.lane_allocations[block->lane] == block->born;
	struct metrics *set[] = {
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

/* One step of the program, in the trace and in the books. */
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

static void check_metrics(const struct metrics *got, const struct metrics *want)
{
	ck_assert_uint_eq(got->samples, want->samples);
	ck_assert_uint_eq(got->allocations, want->allocations);
	ck_assert_uint_eq(got->allocated_bytes, want->allocated_bytes);
	ck_assert_uint_eq(got->frees, want->frees);
	ck_assert_uint_eq(got->freed_bytes, want->freed_bytes);
	ck_assert_uint_eq(got->temporary, want->temporary);
}

static void check_stacks(const struct profile *profile)
{
	ck_assert_uint_eq(profile->stack_count, STACKS);
	for (unsigned i = 0; i < STACKS; i++) {
		const struct profile_stack *stack = &profile->stack[i];
		unsigned s = 0;
		while (node[s] != stack->node)
			s++;
		check_metrics(&stack->metrics, &ledger.stack[s]);
		ck_assert_uint_eq(stack->peak_bytes, ledger.stack_peak[s]);
		ck_assert_uint_eq(stack->calls[ABI_HOOK_MALLOC] + stack->calls[ABI_HOOK_REALLOC],
			ledger.stack[s].allocations);
	}
}

static void check_threads(const struct analysis *analysis)
{
	ck_assert_uint_eq(analysis->profile.thread_count, SCENE_LANES);
	for (unsigned i = 0; i < SCENE_LANES; i++) {
		unsigned lane = analysis->model.threads.thread[i].tid - SCENE_TID(0);
		check_metrics(&analysis->profile.thread[i].metrics, &ledger.lane[lane]);
		ck_assert_uint_eq(analysis->profile.thread[i].frees, ledger.lane_frees[lane]);
	}
}

static void add_metrics(struct metrics *sum, const struct metrics *part)
{
	sum->samples += part->samples;
	sum->allocations += part->allocations;
	sum->allocated_bytes += part->allocated_bytes;
	sum->frees += part->frees;
	sum->freed_bytes += part->freed_bytes;
	sum->temporary += part->temporary;
}

static void compare_with_ledger(unsigned seed)
{
	play(seed);
	struct analysis *analysis = scene_analyze(&scene);
	const struct profile *profile = &analysis->profile;
	check_metrics(&profile->total, &ledger.total);
	ck_assert_uint_eq(profile->before_frees, 0);
	ck_assert_uint_eq(profile->peak_bytes, ledger.peak_bytes);
	ck_assert_uint_le(profile->peak_time_ns, ledger.peak_time_ns + 1);
	ck_assert_uint_ge(profile->peak_time_ns + 1, ledger.peak_time_ns);
	ck_assert_uint_eq(metrics_outstanding_bytes(&profile->total), ledger.live_bytes);
	check_stacks(profile);
	check_threads(analysis);
	analysis_destroy(analysis);
	scene_deinit(&scene);
}

START_TEST(the_trace_equals_the_ledger)
{
	for (unsigned seed = 1; seed <= 5; seed++)
		compare_with_ledger(seed);
}
END_TEST

static void check_sums(const struct profile *profile)
{
	struct metrics stacks = {0}, threads = {0}, sizes = {0};
	uint64_t peak_bytes = 0, calls = 0, functions = 0;
	for (size_t i = 0; i < profile->stack_count; i++) {
		add_metrics(&stacks, &profile->stack[i].metrics);
		peak_bytes += profile->stack[i].peak_bytes;
		for (unsigned h = 0; h < REPLAY_HOOKS; h++)
			calls += profile->stack[i].calls[h];
	}
	for (size_t i = 0; i < profile->thread_count; i++)
		add_metrics(&threads, &profile->thread[i].metrics);
	for (size_t i = 0; i < PROFILE_SIZE_CLASSES; i++)
		add_metrics(&sizes, &profile->size_class[i]);
	for (unsigned h = 0; h < REPLAY_HOOKS; h++)
		functions += profile->function[h].allocations;
	check_metrics(&stacks, &profile->total);
	check_metrics(&threads, &profile->total);
	check_metrics(&sizes, &profile->total);
	ck_assert_uint_eq(peak_bytes, profile->peak_bytes);
	ck_assert_uint_eq(calls, profile->total.allocations);
	ck_assert_uint_eq(functions, profile->total.allocations);
}

START_TEST(parts_sum_up_to_the_total)
{
	play(7);
	struct analysis *analysis = scene_analyze(&scene);
	check_sums(&analysis->profile);
	analysis_destroy(analysis);
	scene_deinit(&scene);
}
END_TEST

/* What no program does: any event of any thread for any of a few addresses. */
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

START_TEST(sums_hold_for_events_that_make_no_sense)
{
	play(8);
	for (unsigned i = 0; i < STEPS; i++)
		step_madly();
	struct analysis *analysis = scene_analyze(&scene);
	const struct metrics *total = &analysis->profile.total;
	check_sums(&analysis->profile);
	ck_assert_uint_le(total->frees, total->allocations);
	ck_assert_uint_le(total->temporary, total->frees);
	ck_assert_uint_le(metrics_outstanding_bytes(total), analysis->profile.peak_bytes);
	ck_assert_uint_gt(analysis->model.counts.inferred_frees, 0);
	analysis_destroy(analysis);
	scene_deinit(&scene);
}
END_TEST

START_TEST(the_first_moment_of_the_peak_counts)
{
	scene_init(&scene);
	uint32_t a = tracebuild_node(&scene.trace, 0, 0x1),
		 b = tracebuild_node(&scene.trace, 0, 0x2);
	scene_malloc(&scene, 0, 0x1000, 100, a);
	scene_free(&scene, 0, 0x1000, 100);
	scene_malloc(&scene, 0, 0x1000, 100, b); /* as high, but later */
	struct analysis *analysis = scene_analyze(&scene);
	ck_assert_uint_eq(analysis->profile.stack[0].peak_bytes, 100);
	ck_assert_uint_eq(analysis->profile.stack[1].peak_bytes, 0);
	ck_assert_uint_eq(analysis->profile.peak_time_ns, SCENE_STEP_NS);
	ck_assert_uint_eq(analysis->profile.peak_blocks, 1);
	analysis_destroy(analysis);
	scene_deinit(&scene);
}
END_TEST

START_TEST(size_classes_have_whole_bits)
{
	ck_assert_uint_eq(profile_size_class(0), 0);
	ck_assert_uint_eq(profile_size_class(1), 1);
	ck_assert_uint_eq(profile_size_class(15), 4);
	ck_assert_uint_eq(profile_size_class(16), 5);
	ck_assert_uint_eq(profile_size_class(UINT64_MAX), 64);
}
END_TEST

START_TEST(order_is_by_metric_then_by_allocated_bytes)
{
	scene_init(&scene);
	uint32_t small = tracebuild_node(&scene.trace, 0, 0x1);
	uint32_t churn = tracebuild_node(&scene.trace, 0, 0x2);
	uint32_t big = tracebuild_node(&scene.trace, 0, 0x3);
	scene_malloc(&scene, 0, 0x1000, 10, small);
	scene_free(&scene, 0, 0x1000, 10);
	scene_malloc(&scene, 0, 0x1000, 500, churn);
	scene_free(&scene, 0, 0x1000, 500);
	scene_malloc(&scene, 0, 0x1000, 20, big);
	struct analysis *analysis = scene_analyze(&scene);
	uint32_t *order;
	ck_no_err(profile_order(analysis->profile.stack, analysis->profile.stack_count,
		PROFILE_OUTSTANDING, &order));
	ck_assert_uint_eq(analysis->profile.stack[order[0]].node, big);
	ck_assert_uint_eq(analysis->profile.stack[order[1]].node, churn);
	ck_assert_uint_eq(analysis->profile.stack[order[2]].node, small);
	free(order);
	analysis_destroy(analysis);
	scene_deinit(&scene);
}
END_TEST

HT_SUITE("analyzer/profile", the_trace_equals_the_ledger, parts_sum_up_to_the_total,
	sums_hold_for_events_that_make_no_sense, the_first_moment_of_the_peak_counts,
	size_classes_have_whole_bits, order_is_by_metric_then_by_allocated_bytes)
