/* SPDX-License-Identifier: Apache-2.0
 *
 * mimalloc's segments and heaps, sound, hostile, or in the middle of a change: the bytes handed out
 * are counted to the byte, and an account of contradictory data is never known.
 */
#include "attach/heap/mimalloc/mimalloc.h"

#include <stdatomic.h>

#include "tests/support/ht_check.h"
#include "tests/unit/attach/mimodel.h"

static void check_exact(uint64_t held_bytes)
{
	struct heap_account account = check_held(held_bytes);
	ck_assert_uint_eq(account.header_bytes, 0);
}

static void check_off_by(uint64_t bytes)
{
	struct heap_account account = read_known();
	ck_assert_uint_ge(account.off_bytes, bytes);
	ck_assert_str_ne(account.reason, "");
}

HT_TEST(every_page_counts_to_the_byte)
{
	for (unsigned i = 0; i < 6; i++) {
		setup();
		rule = i % 2;
		uint64_t held = fill();
		if (i >= 2)
			held += huge(i < 4 ? 400 : 60000);
		check_exact(held);
	}
}

HT_TEST(blocks_freed_by_other_threads_are_not_held)
{
	for (unsigned i = 0; i < 2; i++) {
		setup();
		rule = i;
		uint64_t held = fill();
		struct slice *one = page(0, first, 64, 100), *two = page(0, first, 20480, 20);
		struct slice *ended = page(2, NULL, 320, 50);
		list_fill(one, 7, 17, &one->thread_free);
		one->thread_free |= 2;
		list_fill(ended, 0, 50, &ended->thread_free);
		ended->thread_free |= 3;
		/* A block of a full page is freed into its heap's delayed list. */
		list_fill(one, 90, 91, &first->delayed);
		list_fill(two, 0, 20, &first->delayed);
		check_exact(held + (100 - 10 - 1) * 64);
	}
}

HT_TEST(a_list_that_contradicts_itself_is_allowed_for)
{
	for (unsigned i = 0; i < 9; i++) {
		setup();
		fill();
		struct slice *one = page(0, first, 64, 100), *two = page(0, first, 64, 100);
		raddr_t *list = i < 4 ? &one->thread_free : &first->delayed;
		list_fill(one, 7, 17, list);
		raddr_t *last = (void *)(uintptr_t)block_of(one, 7);
		/* The list leads to a block of another heap. */
		if (i == 8)
			*last = block_of(&segment[1]->slice[1], 0);
		else if (i % 4 == 0)
			*last = block_of(one, 16);
		if (i % 4 == 1)
			*last = block_of(one, 8) + 8;
		if (i % 4 == 2)
			*last = i < 4 ? block_of(two, 3) : at(variables);
		if (i % 4 == 3)
			one->used = 9;
		check_off_by(one->used * 64);
	}
}

HT_TEST(too_much_to_read_is_reported)
{
	for (unsigned i = 0; i < 2; i++) {
		setup();
		uint64_t held = fill();
		for (unsigned k = 0; k < 300; k++) {
			struct slice *now = page(0, first, 16, 4000);
			list_fill(now, 0, i ? 2000 : 4000, &now->thread_free);
			if (i)
				list_fill(now, 2000, 4000, &first->delayed);
		}
		struct heap_account account = read_known();
		ck_assert_uint_ge(account.held_bytes, held);
		ck_assert_uint_le(account.held_bytes, held + account.off_bytes);
		ck_assert_ptr_nonnull(strstr(account.reason, "heaptap can read"));
	}
}

/* Each heap states how many pages it has. */
HT_TEST(pages_that_were_not_found_are_not_passed_over)
{
	setup();
	check_exact(fill());
	first->pages++;
	check_unknown();
	first->pages -= 2;
	check_unknown();
	first->pages++;
	second->pages++;
	check_unknown();
	second->pages--;
	segment[1]->cookie++;
	/* Without segment 1 heaptap does not learn of the second heap, and misses no pages. */
	(void)read_known();
	segment[1]->cookie--;
	segment[0]->cookie++;
	check_unknown();
}

static atomic_int step;

static void *run(void *context)
{
	struct own_heap *heap = context;
	heap->thread = at((void *)pthread_self());
	default_heap = at(heap);
	atomic_store(&step, 1);
	while (atomic_load(&step) == 1)
		sched_yield();
	return NULL;
}

HT_TEST(a_heap_without_pages_is_found_by_its_thread)
{
	setup();
	uint64_t held = fill();
	pthread_t thread;
	struct own_heap *third = map(PAGE);
	heap_init(third, at(variables), 0);
	/* A mapping ends where its stack does. */
	uint8_t *stack = map(MIB);
	pthread_attr_t attr;
	ck_assert_int_eq(mprotect(stack + MIB - PAGE, PAGE, PROT_NONE), 0);
	pthread_attr_init(&attr);
	pthread_attr_setstack(&attr, stack, MIB - PAGE);
	ck_assert_int_eq(pthread_create(&thread, &attr, run, third), 0);
	while (!atomic_load(&step))
		sched_yield();
	check_exact(held);
	third->pages = 3;
	check_unknown();
	atomic_store(&step, 2);
	pthread_join(thread, NULL);
}

HT_TEST(a_page_on_its_way_holds_nothing)
{
	setup();
	uint64_t held = fill();
	struct slice *now = page(0, first, 64, 0);
	first->pages--;
	*now = (struct slice){.count = 1, .block_bytes = 1};
	check_exact(held);
	segment[0]->used--;
	check_exact(held);
	segment[0]->used--;
	check_unknown();
}

HT_TEST(a_page_that_contradicts_itself_is_not_believed)
{
	setup();
	(void)fill();
	segment[1]->slice[3].offset = 80;
	check_off_by(3 * SLICE);
	for (unsigned i = 0; i < 9; i++) {
		setup();
		uint64_t held = fill();
		check_exact(held);
		struct slice *odd = page(0, first, 320, 10);
		if (i == 0)
			odd->used = odd->capacity + 1u;
		if (i == 1)
			odd->capacity++;
		if (i == 2)
			odd->reserved--, odd->capacity--;
		if (i == 3)
			odd->block_bytes = 328;
		if (i == 4)
			odd->count = 0;
		if (i == 5)
			odd->count = 8;
		if (i == 6)
			odd->offset = 80;
		if (i == 7)
			odd->heap = at(second);
		if (i == 8)
			odd->heap = at(variables);
		if (i < 7)
			check_unknown();
		else
			check_off_by(10 * 320 + (i == 7 ? 2 * SLICE : 0));
	}
}

HT_TEST(a_segment_that_contradicts_itself_is_not_known)
{
	for (unsigned i = 0; i < 9; i++) {
		setup();
		(void)fill();
		struct segment *odd = segment[0];
		if (i == 0)
			odd->used++;
		if (i == 1)
			odd->slices = 1ull << 40;
		if (i == 2)
			odd->slices = 0;
		if (i == 3)
			odd->info_slices = 0;
		if (i == 4)
			odd->info_slices = 2;
		if (i == 5)
			odd->entries = 1ull << 60;
		if (i == 6)
			odd->huge = 1;
		if (i == 7)
			odd->abandoned = odd->used + 1;
		if (i == 8)
			odd->slice[0].count = UINT32_MAX;
		check_unknown();
	}
	/* No heap misses the pages of a thread that has ended. */
	setup();
	(void)fill();
	segment[2]->slices = 0;
	check_unknown();
}

/* A segment that was given back, or that belongs to another mimalloc in the same program. */
HT_TEST(other_segments_are_not_counted)
{
	setup();
	uint64_t held = fill();
	segment_init(3, first->thread);
	check_exact(held);
	page(3, NULL, 64, 5);
	check_exact(held + 5 * 64);
	segment[3]->used = 0;
	check_exact(held);
	segment[3]->used = 1;
	segment[3]->cookie++;
	check_exact(held);
}

HT_TEST(nothing_to_read_is_unknown)
{
	bool found;
	setup();
	check_exact(0);
	uint64_t held = fill();
	check_exact(held);
	first->queue[40].block_bytes++;
	check_unknown();
	first->queue[40].block_bytes--;
	first->cookie = 0;
	(void)read_account(&found);
	ck_assert(!found);
	first->cookie = cookie;
	first->own++;
	check_unknown();
	first->own--;
	check_exact(held);
	struct own_heap *again = (void *)(variables + MIB);
	heap_init(again, first->own, first->thread);
	/* The word that `again` points at does not point back, so `again` is no heap. */
	check_exact(held);
	raddr_t *own = (void *)(variables + 6 * PAGE);
	again->own = at(own);
	own[2] = at(again);
	check_unknown();
	own[2] = 0;
	module.segment[0].memsz = at(first) - at(variables) + PAGE / 2;
	check_unknown();
	module.segment[0].memsz = UINT64_MAX / 2;
	check_unknown();
	module.segment_count = 0;
	check_unknown();
	module.segment_count = 1;
	module.segment[0].memsz = VARIABLES;
	munmap(variables, VARIABLES);
	check_unknown();
}

/* The reader would examine each of these words as a heap. */
HT_TEST(variables_that_look_like_heaps_end)
{
	setup();
	uint64_t *word = map(64 * MIB);
	for (size_t i = 0; i < 64 * MIB / sizeof(*word); i++)
		word[i] = 8;
	module.segment[0].vaddr = at(word);
	module.segment[0].memsz = 64 * MIB;
	check_unknown();
}

/* A program's malloc is mimalloc's by another name, or another allocator's. */
HT_TEST(malloc_by_its_other_name_is_counted_once)
{
	static const struct family mi = {.allocator = "mimalloc", .prefix = "mi_", .hooked = true};
	static const struct family plain = {.allocator = "malloc", .prefix = "", .hooked = true};
	static char names[][12] = {"malloc", "mi_free", "mi_malloc"};
	struct native native[] = {{.family = &plain, .name = names[0], .hook = ABI_HOOK_MALLOC},
		{.family = &mi, .name = names[1], .hook = ABI_HOOK_FREE},
		{.family = &mi, .name = names[2], .hook = ABI_HOOK_MALLOC}};
	const struct modules modules = {.module = &module, .count = 1};
	struct heap heap;
	setup();
	uint64_t held = fill();
	for (unsigned count = 1; count <= 3; count++) {
		module.natives = (struct natives){.native = native, .count = count};
		ck_no_err(heap_read(&self, &modules, &heap));
		ck_assert_uint_eq(heap.count, count < 3 ? 1 : 2);
		ck_assert_str_eq(heap.account[0].allocator, "mimalloc");
		ck_assert_uint_eq(heap.account[0].held_bytes, held);
		ck_assert(count < 3 || !heap.account[1].known);
	}
}

static uint64_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return *state >> 20;
}

/* The reader ends, whichever words are overwritten, and gives a reason if the result is unknown. */
HT_TEST(scribbled_over_it_ends)
{
	uint64_t state = 1;
	struct segment *before = map(3 * sizeof(*before));
	setup();
	fill();
	struct slice *one = page(0, first, 64, 100);
	list_fill(one, 7, 17, &one->thread_free);
	list_fill(one, 50, 52, &first->delayed);
	for (unsigned i = 0; i < 3; i++)
		before[i] = *segment[i];
	struct own_heap heap = *first;
	for (unsigned k = 0; k < 400; k++) {
		bool found;
		for (unsigned n = 1 + next_random(&state) % 12; n; n--) {
			unsigned which = (unsigned)(next_random(&state) % 4);
			uint64_t *words = which < 3 ? (void *)segment[which] : (void *)first;
			/* The slice descriptions that are in use. */
			size_t count = which < 3 ? 33 + 10 * 80 : sizeof(heap) / 8;
			uint64_t *word = &words[next_random(&state) % count];
			*word = n % 2 ? *word ^ 1ull << next_random(&state) % 64
				      : next_random(&state) << 20;
		}
		struct heap_account account = read_account(&found);
		ck_assert(!found || account.known || account.reason[0]);
		for (unsigned i = 0; i < 3; i++)
			*segment[i] = before[i];
		*first = heap;
	}
}

HT_SUITE("attach/mimalloc")
