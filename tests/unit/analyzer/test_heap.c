/* SPDX-License-Identifier: Apache-2.0
 *
 * The figures of the heap: what the allocators' own counters give, and what the trace adds, at the
 * start, over time and at the end, and where both disagree.
 */
#include "analyzer/cube/heap.h"

#include <string.h>

#include "analyzer/views/warnings.h"
#include "tests/unit/analyzer/scene.h"

#define KIB 1024u
#define MIB 1048576u

static struct scene scene;
static struct analysis *analysis;

static struct rec_account account(const char *allocator, uint64_t held_bytes, uint64_t off_bytes)
{
	return (struct rec_account){.allocator = {allocator, strlen(allocator)},
		.flags = REC_ACCOUNT_KNOWN,
		.held_bytes = held_bytes,
		.off_bytes = off_bytes,
		.system_bytes = 2 * held_bytes,
		.arenas = 3,
		.header_bytes = 8};
}

static void put_heap(uint64_t begin_tsc, const struct rec_account *accounts, size_t count)
{
	struct rec rec = {.kind = REC_HEAP};
	rec.heap = (struct rec_heap){
		.begin_tsc = begin_tsc, .end_tsc = scene.now, .account_count = count};
	for (size_t i = 0; i < count; i++)
		rec.heap.account[i] = accounts[i];
	tracebuild_put(&scene.trace, &rec);
}

/* Puts a reading of the heap that took no time. */
static void read_heap(uint64_t held_bytes, uint64_t off_bytes)
{
	const struct rec_account one = account("glibc", held_bytes, off_bytes);
	scene.now += SCENE_STEP_NS;
	put_heap(scene.now, &one, 1);
}

static const struct heap *finish(void)
{
	analysis = scene_analyze(&scene);
	return &analysis->heap;
}

static void end(void)
{
	analysis_destroy(analysis);
	scene_deinit(&scene);
}

static bool is_warned(void)
{
	struct warnings warnings;
	bool found = false;
	ck_no_err(warnings_collect(analysis, &warnings));
	for (size_t i = 0; i < warnings.count; i++)
		found |= strstr(warnings.text[i], "own data show") != NULL;
	warnings_deinit(&warnings);
	return found;
}

/* 14 MiB are allocated and 4 of them freed before the reading; after it 3 MiB of older blocks are
 * freed, and 5 MiB allocated. */
HT_TEST(the_start_is_without_what_came_since)
{
	scene_init(&scene);
	scene_malloc(&scene, 0, 0x1000, 10 * MIB, 0);
	scene_malloc(&scene, 0, 0x2000, 4 * MIB, 0);
	scene_free(&scene, 0, 0x2000, 4 * MIB);
	read_heap(110 * MIB, 0);
	scene_free(&scene, 0, 0x9000, 3 * MIB - 8);
	scene_malloc(&scene, 0, 0x3000, 5 * MIB, 0);
	const struct heap *heap = finish();
	ck_assert(heap->is_told && heap->known && heap->has_curve && !heap->end_known);
	ck_assert_uint_eq(heap->start_bytes, 100 * MIB);
	/* It is unknown by how much the allocator rounded up the one live block. */
	ck_assert_uint_eq(heap->off_bytes, 8192);
	ck_assert_uint_eq(heap->arenas, 3);
	ck_assert_uint_eq(heap->system_bytes, 220 * MIB);
	ck_assert_uint_eq(heap->peak_bytes, 114 * MIB);
	const struct timeline *timeline = &analysis->cube.timeline;
	const struct timeline_step *last = &timeline->step[timeline->count - 1];
	ck_assert_uint_eq(
		heap_bytes_at(heap, last->live_bytes, last->before_bytes), 112 * (uint64_t)MIB);
	end();
}

/* Events during a reading may or may not be in it, so they widen its error. */
HT_TEST(what_moves_while_it_is_read_makes_it_off)
{
	scene_init(&scene);
	scene_malloc(&scene, 0, 0x1000, 100, 0);
	uint64_t begin_tsc = scene.now + 1;
	scene_malloc(&scene, 1, 0x2000, 3000, 0);
	scene_free(&scene, 0, 0x1000, 100);
	scene_free(&scene, 0, 0x9000, 500);
	const struct rec_account one = account("glibc", MIB, 7);
	scene.now += ABI_TIME_UNIT;
	put_heap(begin_tsc, &one, 1);
	scene_malloc(&scene, 0, 0x4000, 900000, 0);
	const struct heap *heap = finish();
	ck_assert_uint_eq(heap->start_bytes, MIB - 100);
	ck_assert_uint_eq(heap->off_bytes, 7 + 3000 + 100 + 508 + 48);
	end();
}

/* Each of two threads allocates and frees a thousand blocks during the reading, one at a time: only
 * one block of each thread counts. */
HT_TEST(churn_counts_once_a_thread)
{
	scene_init(&scene);
	scene_malloc(&scene, 0, 0x1000, 100, 0);
	uint64_t begin_tsc = scene.now + 1;
	for (unsigned i = 0; i < 1000; i++)
		for (unsigned lane = 0; lane < 2; lane++) {
			scene_malloc(&scene, lane, 0x10000 * (lane + 1), 3000, 0);
			scene_free(&scene, lane, 0x10000 * (lane + 1), 3000);
		}
	/* Blocks of this size may each be a mapping of its own. */
	for (unsigned i = 0; i < 10; i++) {
		scene_malloc(&scene, 0, 0x90000, 100000, 0);
		scene_free(&scene, 0, 0x90000, 100000);
	}
	const struct rec_account one = account("glibc", MIB, 7);
	scene.now += ABI_TIME_UNIT;
	put_heap(begin_tsc, &one, 1);
	const struct heap *heap = finish();
	ck_assert_uint_eq(heap->start_bytes, MIB - 100);
	ck_assert_uint_eq(heap->off_bytes, 7 + 2 * 3000 + 100000 + 48);
	end();
}

/* The reading at the end says little: 40 MiB, with an error of 40 MiB. The start had 10 MiB; 30
 * were allocated since, and 4 of the older ones freed. */
HT_TEST(the_events_bound_the_end)
{
	for (int lost = 0; lost < 2; lost++) {
		scene_init(&scene);
		read_heap(10 * MIB, 0);
		scene_malloc(&scene, 0, 0x1000, 30 * MIB, 0);
		scene_free(&scene, 0, 0x9000, 4 * MIB - 8);
		read_heap(40 * MIB, 40 * MIB);
		if (lost)
			tracebuild_loss(&scene.trace, REC_COUNTER_LOST_TIMEOUT, 1);
		const struct heap *heap = finish();
		const struct heap_range range = heap_end_range(heap);
		ck_assert_uint_eq(range.least_bytes, (lost ? 30 : 36) * (uint64_t)MIB);
		/* The block's rounding to pages, and the MiB that may go unseen. */
		ck_assert_uint_eq(range.most_bytes, lost ? 80 * (uint64_t)MIB : 37 * MIB + 8192);
		ck_assert_uint_eq(heap->end_bytes, lost ? 40 * (uint64_t)MIB : 37 * MIB + 8192);
		ck_assert(range.is_known && (lost || range.is_figure));
		ck_assert_uint_ge(heap_peak_range(heap).least_bytes, range.least_bytes);
		end();
	}
}

/* If readings and events contradict each other, the readings count, and their range is not
 * narrowed. */
HT_TEST(the_events_do_not_overrule_the_books)
{
	scene_init(&scene);
	read_heap(10 * MIB, 0);
	scene_malloc(&scene, 0, 0x1000, 30 * MIB, 0);
	read_heap(20 * MIB, MIB);
	const struct heap *heap = finish();
	const struct heap_range range = heap_end_range(heap);
	ck_assert_uint_eq(heap->end_bytes, 20 * MIB);
	ck_assert_uint_eq(range.least_bytes, 19 * MIB);
	ck_assert_uint_eq(range.most_bytes, 21 * MIB);
	end();
}

static const struct heap *compare(int64_t more_bytes, bool lost)
{
	scene_init(&scene);
	read_heap(100 * MIB, 10);
	scene_malloc(&scene, 0, 0x1000, 2000, 0);
	scene_malloc(&scene, 0, 0x2000, 30 * MIB, 0);
	scene_free(&scene, 0, 0x9000, 20 * MIB - 8);
	read_heap((uint64_t)(110 * (int64_t)MIB + 2000 + more_bytes), 20);
	if (lost)
		tracebuild_loss(&scene.trace, REC_COUNTER_LOST_TIMEOUT, 1);
	return finish();
}

HT_TEST(both_readings_must_agree_with_the_trace)
{
	/* Both readings are off, blocks were rounded up, and a MiB may have gone unseen. */
	const int64_t less = -30 - (int64_t)MIB, more = 30 + MIB + 48 + 8192;
	for (int beyond = 0; beyond < 2; beyond++) {
		const struct heap *heap = compare(more + beyond, false);
		ck_assert_int_eq(heap->explained_bytes, 10 * MIB + 2000);
		ck_assert_int_eq(heap->growth_bytes, 10 * MIB + 2000 + more + beyond);
		ck_assert_int_eq(heap->is_unexplained, beyond);
		ck_assert_int_eq(is_warned(), beyond);
		end();
		heap = compare(less - beyond, false);
		ck_assert(heap->end_known);
		ck_assert_int_eq(heap->is_unexplained, beyond);
		ck_assert_int_eq(is_warned(), beyond);
		end();
	}
	/* Lost events explain any difference. */
	ck_assert(!compare(50 * MIB, true)->is_unexplained);
	end();
}

HT_TEST(one_unknown_allocator_makes_it_unknown)
{
	scene_init(&scene);
	const struct rec_account two[] = {account("glibc", MIB, 7),
		{.allocator = {"jemalloc", 8}, .reason = {"why not", 7}, .held_bytes = 5}};
	put_heap(scene.now, two, 2);
	const struct heap *heap = finish();
	ck_assert(heap->is_told && !heap->known);
	ck_assert_str_eq(heap->allocator, "jemalloc");
	ck_assert_str_eq(heap->reason, "why not");
	ck_assert_uint_eq(heap->start_bytes, 0);
	end();
}

/* Readings of any size and time, and more than the analyzer keeps: none can be true, but the
 * analysis ends. */
HT_TEST(forged_readings_do_no_harm)
{
	static const uint64_t word[] = {
		0, 1, INT64_MAX, (uint64_t)INT64_MAX + 1, UINT64_MAX - 1, UINT64_MAX};
	scene_init(&scene);
	for (size_t i = 0; i < 500; i++) {
		struct rec_account two[] = {account("glibc", word[i % 6], word[i / 6 % 6]),
			account("", word[i / 3 % 6], word[i / 2 % 6])};
		two[0].header_bytes = two[1].arenas = word[i / 5 % 6];
		put_heap(i % 7 ? scene.now : word[i / 7 % 6], two, 2);
		scene_malloc(&scene, 0, 16 * i + 16, i % 5 ? 48 : UINT32_MAX, 0);
	}
	const struct heap *heap = finish();
	ck_assert(heap->is_told && heap->known);
	ck_assert_uint_le(heap->start_bytes, INT64_MAX);
	ck_assert_uint_le(heap->peak_bytes, INT64_MAX);
	end();
}

HT_TEST(allocators_are_summed_up)
{
	scene_init(&scene);
	struct rec_account two[] = {account("glibc", 100, 1), account("glibc", 1000, 2)};
	two[1].reason = (struct rec_string){"moved", 5};
	put_heap(scene.now, two, 2);
	const struct heap *heap = finish();
	ck_assert(heap->known);
	ck_assert_uint_eq(heap->start_bytes, 1100);
	ck_assert_uint_eq(heap->off_bytes, 3);
	ck_assert_str_eq(heap->reason, "moved");
	end();
}

/* Frees of unknown blocks count for the allocator that holds most. An allocator without headers
 * rounds up to size classes: its blocks may be a fourth larger than requested. */
HT_TEST(blocks_without_headers_are_of_sizes)
{
	scene_init(&scene);
	struct rec_account two[] = {account("glibc", KIB, 1), account("jemalloc", 100 * MIB, 2)};
	two[1].header_bytes = 0;
	scene_malloc(&scene, 0, 0x1000, 4 * MIB, 0);
	scene.now += SCENE_STEP_NS;
	put_heap(scene.now, two, 2);
	scene_free(&scene, 0, 0x9000, 3 * MIB);
	scene.now += SCENE_STEP_NS;
	two[1].held_bytes = 97 * MIB;
	put_heap(scene.now, two, 2);
	const struct heap *heap = finish();
	ck_assert_uint_eq(heap->start_bytes, 96 * MIB + KIB);
	ck_assert_uint_eq(heap->off_bytes, 3 + 8192 + MIB);
	ck_assert_int_eq(heap->explained_bytes, -3 * (int64_t)MIB);
	ck_assert_int_eq(heap->growth_bytes, heap->explained_bytes);
	end();
}

HT_TEST(a_trace_without_a_reading_says_nothing)
{
	scene_init(&scene);
	scene_malloc(&scene, 0, 0x1000, 100, 0);
	ck_assert(!finish()->is_told);
	end();
	scene_init(&scene);
	put_heap(scene.now, NULL, 0);
	const struct heap *heap = finish();
	ck_assert(heap->is_told && !heap->known);
	end();
}

/* The events of a sample are estimates and give no curve; a figure of a reading is exact. */
HT_TEST(a_sample_has_no_curve)
{
	scene_init_sample(&scene, 512 * KIB);
	scene_malloc(&scene, 0, 0x1000, 10 * MIB, 0);
	read_heap(100 * MIB, 0);
	read_heap(300 * MIB, 0);
	const struct heap *heap = finish();
	ck_assert(heap->known && !heap->has_curve);
	ck_assert_uint_eq(heap->start_bytes, 100 * MIB);
	ck_assert_uint_eq(heap->end_bytes, 300 * MIB);
	ck_assert(!heap->is_unexplained);
	end();
}

HT_TEST(readings_out_of_order_are_ignored)
{
	scene_init(&scene);
	read_heap(100, 0);
	const struct rec_account other = account("glibc", 77777, 0);
	put_heap(SCENE_START_NS - 5, &other, 1);
	put_heap(scene.now + 1000, &other, 1);
	const struct heap *heap = finish();
	ck_assert_uint_eq(heap->start_bytes, 100);
	ck_assert(!heap->end_known);
	end();
}

HT_TEST(sizes_of_any_kind_stay_in_range)
{
	scene_init(&scene);
	read_heap(UINT64_MAX, UINT64_MAX);
	scene_malloc(&scene, 0, 0x1000, UINT64_MAX - 5, 0);
	scene_free(&scene, 0, 0x3000, UINT64_MAX - 1);
	read_heap(UINT64_MAX - 1, UINT64_MAX);
	const struct heap *heap = finish();
	ck_assert(heap->known && heap->end_known && !heap->is_unexplained);
	ck_assert_uint_eq(heap->off_bytes, UINT64_MAX);
	end();
}

/* Blocks take more than the requested size. The reading at the end includes that, events do not. */
HT_TEST(the_peak_is_not_below_an_end)
{
	static const struct {
		uint64_t start, allocated, freed, end;
		uint64_t peak;
		bool at_end;
	} one[] = {
		{26 * MIB, MIB / 4, 0, 27 * MIB, 27 * MIB, true},
		{26 * MIB, 4 * MIB, 3 * MIB, 27 * MIB, 30 * MIB, false},
		{0, 2 * MIB, 0, 2 * MIB + 48, 2 * MIB + 48, true},
		{9 * MIB, 0, 0, 9 * MIB, 9 * MIB, false},
		{9 * MIB, 0, 0, 2 * MIB, 9 * MIB, false},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(one); i++) {
		scene_init(&scene);
		read_heap(one[i].start, 0);
		if (one[i].allocated)
			scene_malloc(&scene, 0, 0x1000, one[i].allocated, 0);
		if (one[i].freed) {
			scene_malloc(&scene, 0, 0x2000, 1, 0);
			scene_free(&scene, 0, 0x1000, one[i].freed);
		}
		read_heap(one[i].end, 0);
		const struct heap *heap = finish();
		uint64_t slack = one[i].freed ? 1 : 0;
		ck_assert_uint_eq(heap->peak_bytes, one[i].peak + slack);
		ck_assert_uint_ge(heap->peak_bytes, heap->start_bytes);
		ck_assert_uint_ge(heap->peak_bytes, heap->end_bytes);
		ck_assert_int_eq(heap->peak_time_ns == analysis->model.duration_ns, one[i].at_end);
		end();
	}
}

HT_TEST(an_end_is_known_without_a_start)
{
	scene_init(&scene);
	const struct rec_account unknown = {.allocator = {"glibc", 5}, .reason = {"why not", 7}};
	put_heap(scene.now, &unknown, 1);
	read_heap(5 * MIB, 7);
	const struct heap *heap = finish();
	ck_assert(!heap->known && !heap->has_curve && heap->end_known && !heap->growth_known);
	ck_assert_uint_eq(heap->end_bytes, 5 * MIB);
	ck_assert_uint_eq(heap->end_off_bytes, 7);
	ck_assert_str_eq(heap->reason, "why not");
	end();
	scene_init(&scene);
	read_heap(5 * MIB, 7);
	scene.now += SCENE_STEP_NS;
	put_heap(scene.now, &unknown, 1);
	heap = finish();
	ck_assert(heap->known && heap->end_told && !heap->end_known && !heap->growth_known);
	ck_assert_str_eq(heap->end_reason, "why not");
	end();
}

HT_TEST(a_range_holds_the_figure)
{
	static const struct {
		uint64_t bytes, off_bytes;
		struct heap_range range;
	} one[] = {
		{0, 0, {true, true, 0, 0}},
		{7, 0, {true, true, 7, 7}},
		{7, 6, {true, true, 1, 13}},
		{7, 7, {true, false, 0, 14}},
		{7, 8, {true, false, 0, 15}},
		{0, 1, {true, false, 0, 1}},
		{1, UINT64_MAX - 1, {true, false, 0, UINT64_MAX}},
		{1, UINT64_MAX, {false, false, 0, UINT64_MAX}},
		{UINT64_MAX, UINT64_MAX, {false, false, 0, UINT64_MAX}},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(one); i++) {
		struct heap_range range = heap_range_of(one[i].bytes, one[i].off_bytes);
		ck_assert_int_eq(range.is_known, one[i].range.is_known);
		ck_assert_int_eq(range.is_figure, one[i].range.is_figure);
		ck_assert_uint_eq(range.least_bytes, one[i].range.least_bytes);
		ck_assert_uint_eq(range.most_bytes, one[i].range.most_bytes);
	}
}

HT_SUITE("analyzer/heap")
