/* SPDX-License-Identifier: Apache-2.0
 *
 * The sums of mappings: call by call, and compared with a model that counts single pages.
 */
#include "analyzer/cube/mappings.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/unit/analyzer/scene.h"

#define BASE 0x7f0000000000ull
#define PAGE 4096u
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)
#define RW   (PROT_READ | PROT_WRITE)

static struct mappings mappings;
static uint64_t now_ns;

static void call(enum abi_mapping_call what, uint64_t page, uint64_t bytes, int protect,
	unsigned flags, uint32_t stack)
{
	const struct event event = {.kind = ABI_EVENT_MAPPING,
		.hook = (uint8_t)what,
		.addr = BASE + page * PAGE,
		.size = bytes,
		.protect = (uint8_t)protect,
		.flags = flags,
		.stack = stack};
	ck_no_err(mappings_event(&mappings, 0, &event, ++now_ns));
}

static void check_live(uint64_t anonymous, uint64_t file, uint64_t reserved)
{
	ck_assert_uint_eq(mappings.live.anonymous, anonymous * PAGE);
	ck_assert_uint_eq(mappings.live.file, file * PAGE);
	ck_assert_uint_eq(mappings.live.reserved, reserved * PAGE);
}

static const struct mappings_stack *stack_of(uint32_t node)
{
	for (size_t i = 0; i < mappings.stack_count; i++)
		if (mappings.stack[i].node == node)
			return &mappings.stack[i];
	ck_abort_msg("no stack %u", node);
}

static void end(void)
{
	mappings_deinit(&mappings);
	now_ns = 0;
}

HT_TEST(a_part_is_unmapped)
{
	call(ABI_CALL_MAP, 0, 10 * PAGE - 100, RW, ANON, 1);
	call(ABI_CALL_UNMAP, 3, 4 * PAGE, 0, 0, 2);
	check_live(6, 0, 0);
	/* Unmapping pages that are not mapped is no unmap of an older mapping. */
	call(ABI_CALL_UNMAP, 2, 6 * PAGE, 0, 0, 2);
	check_live(4, 0, 0);
	ck_assert_uint_eq(mappings.before_bytes, 0);
	ck_assert_uint_eq(mappings.peak_bytes, 10 * PAGE);
	ck_assert_uint_eq(mappings.peak_time_ns, 1);
	end();
}

HT_TEST(one_is_mapped_over_others)
{
	call(ABI_CALL_MAP, 0, 4 * PAGE, RW, ANON, 1);
	call(ABI_CALL_MAP, 4, 4 * PAGE, PROT_READ, MAP_PRIVATE, 2);
	check_live(4, 4, 0);
	call(ABI_CALL_MAP, 2, 4 * PAGE, RW, ANON | MAP_FIXED, 3);
	check_live(6, 2, 0);
	ck_assert_uint_eq(stack_of(1)->live.anonymous, 2 * PAGE);
	ck_assert_uint_eq(stack_of(2)->live.file, 2 * PAGE);
	ck_assert_uint_eq(stack_of(3)->live.anonymous, 4 * PAGE);
	end();
}

HT_TEST(a_reservation_is_made_accessible)
{
	call(ABI_CALL_MAP, 0, 100 * PAGE, PROT_NONE, ANON, 1);
	check_live(0, 0, 100);
	call(ABI_CALL_PROTECT, 10, 5 * PAGE, RW, 0, 2);
	call(ABI_CALL_PROTECT, 12, 5 * PAGE, PROT_READ, 0, 3);
	check_live(7, 0, 93);
	ck_assert_uint_eq(stack_of(2)->live.anonymous, 5 * PAGE);
	ck_assert_uint_eq(stack_of(3)->live.anonymous, 2 * PAGE);
	ck_assert_uint_eq(stack_of(3)->made_bytes, 2 * PAGE);
	/* A change from one access to another does not change the sums. */
	call(ABI_CALL_PROTECT, 10, 7 * PAGE, PROT_EXEC, 0, 4);
	check_live(7, 0, 93);
	call(ABI_CALL_PROTECT, 0, 100 * PAGE, PROT_NONE, 0, 4);
	check_live(0, 0, 100);
	ck_assert_uint_eq(stack_of(1)->live.reserved, 100 * PAGE);
	ck_assert_uint_eq(mappings.peak_bytes, 7 * PAGE);
	end();
}

HT_TEST(moved_mappings_keep_their_kind)
{
	call(ABI_CALL_MAP, 0, 4 * PAGE, PROT_READ, MAP_PRIVATE, 1);
	call(ABI_CALL_MOVE_FROM, 0, 4 * PAGE, 0, MREMAP_MAYMOVE, 0);
	check_live(0, 0, 0);
	call(ABI_CALL_MOVE_TO, 20, 8 * PAGE, 0, MREMAP_MAYMOVE, 2);
	check_live(0, 8, 0);
	/* mremap with an old length of 0 leaves the old range in place. */
	call(ABI_CALL_MAP, 50, 2 * PAGE, PROT_NONE, ANON, 1);
	call(ABI_CALL_MOVE_FROM, 50, 0, 0, MREMAP_MAYMOVE, 0);
	call(ABI_CALL_MOVE_TO, 60, 2 * PAGE, 0, MREMAP_MAYMOVE, 2);
	check_live(0, 8, 4);
	/* A range that was unknown counts as anonymous. */
	call(ABI_CALL_MOVE_FROM, 200, PAGE, 0, MREMAP_MAYMOVE, 0);
	call(ABI_CALL_MOVE_TO, 210, 3 * PAGE, 0, MREMAP_MAYMOVE, 2);
	check_live(3, 8, 4);
	end();
}

HT_TEST(unmapping_older_mappings)
{
	const struct rec_range used = {BASE, 10 * PAGE, REC_RANGE_USABLE};
	const struct rec_range reserved = {BASE + 10 * PAGE, 10 * PAGE, 0};
	ck_no_err(mappings_before(&mappings, &used));
	ck_no_err(mappings_before(&mappings, &reserved));
	check_live(0, 0, 0);
	call(ABI_CALL_PROTECT, 8, 4 * PAGE, RW, 0, 1); /* two usable and two reserved pages */
	check_live(2, 0, 0);
	ck_assert_uint_eq(mappings.before_bytes, 0);
	call(ABI_CALL_UNMAP, 0, 20 * PAGE, 0, 0, 2);
	check_live(0, 0, 0);
	ck_assert_uint_eq(mappings.before_bytes, 10 * PAGE);
	end();
}

HT_TEST(given_back_is_mapped_still)
{
	call(ABI_CALL_MAP, 0, 4 * PAGE, RW, ANON, 1);
	call(ABI_CALL_ADVISE, 1, PAGE + 1, 0, MADV_DONTNEED, 1);
	check_live(4, 0, 0);
	ck_assert_uint_eq(mappings.advised_bytes, 2 * PAGE);
	ck_assert_uint_eq(mappings.calls[ABI_CALL_ADVISE], 1);
	end();
}

HT_TEST(huge_pages_are_whole)
{
	call(ABI_CALL_MAP, 0, 1, RW, ANON | MAP_HUGETLB, 1);
	check_live(512, 0, 0);
	call(ABI_CALL_MAP, 0x40000, 1, RW, ANON | MAP_HUGETLB | 30u << 26, 1);
	check_live(512 + 262144, 0, 0);
	end();
}

HT_TEST(the_peak_has_stacks)
{
	call(ABI_CALL_MAP, 0, 4 * PAGE, RW, ANON, 1);
	call(ABI_CALL_MAP, 10, 6 * PAGE, RW, ANON, 2);
	call(ABI_CALL_UNMAP, 0, 4 * PAGE, 0, 0, 3);
	call(ABI_CALL_MAP, 20, PAGE, RW, ANON, 2);
	mappings_finish(&mappings);
	ck_assert_uint_eq(mappings.peak_bytes, 10 * PAGE);
	ck_assert_uint_eq(stack_of(1)->peak_bytes, 4 * PAGE);
	ck_assert_uint_eq(stack_of(2)->peak_bytes, 6 * PAGE);
	end();
}

HT_TEST(impossible_calls_are_counted)
{
	static const struct event odd[] = {
		{.hook = ABI_CALL_MAP, .addr = BASE + 1, .size = PAGE},
		{.hook = ABI_CALL_MAP, .addr = BASE, .size = 0},
		{.hook = ABI_CALL_MAP, .addr = BASE, .size = UINT64_MAX},
		{.hook = ABI_CALL_UNMAP, .addr = -(uint64_t)PAGE, .size = PAGE},
		{.hook = ABI_CALL_UNMAP, .addr = BASE, .size = UINT64_MAX - BASE},
		{.hook = ABI_CALL_MOVE_FROM, .addr = 5, .size = 0},
		{.hook = ABI_CALL_MOVE_TO, .addr = BASE, .size = 0},
		{.hook = ABI_CALL_PROTECT, .addr = UINT64_MAX, .size = UINT64_MAX},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(odd); i++)
		ck_no_err(mappings_event(&mappings, 5, &odd[i], 0));
	ck_assert_uint_eq(mappings.odd, HT_ARRAY_SIZE(odd));
	/* A call of a later version. */
	const struct event later = {.hook = 200, .addr = BASE, .size = PAGE};
	ck_no_err(mappings_event(&mappings, 0, &later, 0));
	ck_assert_uint_eq(mappings.odd, HT_ARRAY_SIZE(odd));
	const struct rec_range one = {BASE, PAGE, 1}, same = {BASE, PAGE, 1}, none = {BASE, 0, 1};
	ck_no_err(mappings_before(&mappings, &one));
	ck_no_err(mappings_before(&mappings, &same));
	ck_no_err(mappings_before(&mappings, &none));
	ck_assert_uint_eq(mappings.odd, HT_ARRAY_SIZE(odd) + 2);
	end();
}

/* The analyzer does not follow more ranges than a process can have; its totals still add up. */
HT_TEST(ranges_are_bounded)
{
	for (uint64_t i = 0; i < RANGES_MAX; i++)
		call(ABI_CALL_MAP, 4 * i, 3 * PAGE, RW, ANON, 1);
	check_live(3ull * RANGES_MAX, 0, 0);
	call(ABI_CALL_MAP, 4 * RANGES_MAX, PAGE, RW, ANON, 1);
	ck_assert_uint_eq(mappings.refused, 1);
	call(ABI_CALL_UNMAP, 1, PAGE, 0, 0, 1); /* one range becomes two: one too many */
	ck_assert_uint_le(mappings.ranges.count, RANGES_MAX);
	check_live(3ull * RANGES_MAX - 2, 0, 0);
	call(ABI_CALL_UNMAP, 0, 5ull * RANGES_MAX * PAGE, 0, 0, 1);
	check_live(0, 0, 0);
	end();
}

/* --- against single pages --- */

#define PAGES 200u

struct page {
	bool mapped, usable, file;
	uint32_t mapped_by, used_by;
};

static struct page model[PAGES];

static void model_call(enum abi_mapping_call what, unsigned first, unsigned count, bool usable,
	bool file, uint32_t stack)
{
	for (unsigned i = first; i < first + count; i++) {
		struct page *page = &model[i];
		if (what == ABI_CALL_UNMAP)
			*page = (struct page){0};
		else if (what == ABI_CALL_MAP)
			*page = (struct page){true, usable, file, stack, stack};
		else if (page->mapped && usable != page->usable) {
			page->usable = usable;
			page->used_by = stack;
		}
	}
}

static void check_model(void)
{
	struct mappings_bytes by[4] = {{0}};
	for (unsigned i = 0; i < PAGES; i++) {
		const struct page *page = &model[i];
		if (!page->mapped)
			continue;
		struct mappings_bytes *bytes = &by[page->usable ? page->used_by : page->mapped_by];
		*(!page->usable	     ? &bytes->reserved
			: page->file ? &bytes->file
				     : &bytes->anonymous) += PAGE;
	}
	for (size_t i = 0; i < mappings.stack_count; i++)
		ck_assert_mem_eq(
			&mappings.stack[i].live, &by[mappings.stack[i].node], sizeof(by[0]));
}

HT_TEST(random_calls)
{
	srandom(7);
	memset(model, 0, sizeof(model));
	for (unsigned step = 0; step < 20000; step++) {
		static const enum abi_mapping_call what[] = {
			ABI_CALL_MAP, ABI_CALL_UNMAP, ABI_CALL_PROTECT};
		enum abi_mapping_call which = what[random() % 3];
		unsigned first = (unsigned)random() % PAGES;
		unsigned count = 1 + (unsigned)random() % (PAGES - first);
		bool usable = random() % 2, file = random() % 2;
		uint32_t stack = 1 + (uint32_t)random() % 3;
		call(which, first, (uint64_t)count * PAGE, usable ? RW : PROT_NONE,
			file ? MAP_PRIVATE : ANON, stack);
		model_call(which, first, count, usable, file, stack);
		check_model();
	}
	end();
}

/* --- in a trace --- */

static struct scene scene;

static void put(unsigned lane, const struct eventbuild_mapping *mapping)
{
	struct eventbuild *events = scene_lane(&scene, lane);
	eventbuild_mapping(events, scene.now, mapping, SCENE_TID(lane), 0);
}

HT_TEST(a_trace_tells_it)
{
	const struct rec before = {
		.kind = REC_MAPPED, .mapped = {1, {{BASE, 8 * PAGE, REC_RANGE_USABLE}}}};
	scene_init_with(&scene, 0, REC_CAPTURE_MAPPINGS);
	tracebuild_put(&scene.trace, &before);
	uint32_t leaf = tracebuild_stack(&scene.trace, (const uint64_t[]){0x1000}, 1);
	struct eventbuild_mapping map = {ABI_CALL_MAP, BASE + 16 * PAGE, 4 * PAGE, RW, ANON, leaf};
	struct eventbuild_mapping unmap = {ABI_CALL_UNMAP, BASE, 2 * PAGE, 0, 0, leaf + 99};
	scene_malloc(&scene, 0, 0x1000, 10, leaf);
	put(0, &map);
	put(1, &unmap);
	scene_malloc(&scene, 0, 0x2000, 20, leaf);
	tracebuild_loss(&scene.trace, REC_COUNTER_EVENTS, 2);
	tracebuild_loss(&scene.trace, REC_COUNTER_MAPPINGS, 5);
	struct analysis *analysis = scene_analyze(&scene);
	ck_assert(analysis_has_mappings(analysis));
	ck_assert_uint_eq(analysis->mappings.live.anonymous, 4 * PAGE);
	ck_assert_uint_eq(analysis->mappings.before_bytes, 2 * PAGE);
	ck_assert_uint_eq(analysis->mappings.stack[0].node, leaf);
	ck_assert_uint_eq(analysis->mappings.peak_time_ns, 2 * SCENE_STEP_NS);
	/* The heap's figures do not count mappings. */
	ck_assert_uint_eq(analysis->cube.total.allocated_bytes, 30);
	ck_assert_uint_eq(analysis->model.counts.events, 2);
	ck_assert_uint_eq(model_missing_events(&analysis->model), 0);
	ck_assert_uint_eq(model_missing_mappings(&analysis->model), 3);
	ck_assert_uint_eq(analysis->model.counts.unknown_stacks, 1);
	analysis_destroy(analysis);
	scene_deinit(&scene);
}

HT_SUITE("analyzer/mappings")
