/* SPDX-License-Identifier: Apache-2.0
 *
 * glibc's arenas, sound, hostile, or in the middle of a change: heaptap counts free chunks to the
 * byte. If it cannot, the account states an error bound and a reason, or is unknown.
 */
#include "attach/heap/heap.h"

#include <elf.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "attach/heap/glibc/arena.h"
#include "attach/process/proc_open.h"
#include "tests/support/ht_check.h"

#define KIB	     1024u
#define MIB	     (1024u * KIB)
#define POOL_BYTES   (16 * MIB)
#define SYSTEM_BYTES (12 * MIB)
#define TOP_BYTES    (64 * KIB)
#define MAPPED_BYTES (300 * KIB)
#define UNSORTED     0u
#define CHUNKS	     60000u
#define LARGE	     100u /* a bin of large chunks: index in arena_state */

struct chunk {
	uint64_t previous_bytes, size;
	raddr_t forward, backward;
};

/* The variables of a C library. */
static struct variables {
	uint64_t before[16];
	struct arena_state arena;
	uint64_t between[16];
	/* As of 2.35. */
	uint64_t trim_threshold, top_pad, map_threshold, arena_test, arena_max, thp, huge;
	int32_t huge_flags, maps, maps_max, maps_highest, fixed_threshold, padding;
	uint64_t mapped_bytes, mapped_max_bytes, break_base;
	uint64_t cache_bins, cache_max_bytes, cache_count, cache_unsorted_limit;
} * variables;

static uint8_t *pool; /* where chunks lie */
static size_t pool_used;
static struct proc self;
static struct module module;

static raddr_t at(const void *pointer)
{
	return (raddr_t)(uintptr_t)pointer;
}

static void *map(size_t bytes)
{
	void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(pages, MAP_FAILED);
	return pages;
}

static struct chunk *chunk_new(uint64_t bytes)
{
	struct chunk *chunk = (void *)(pool + pool_used);
	/* Blocks in use lie between the free chunks. */
	pool_used += bytes + 64;
	ck_assert_uint_le(pool_used, POOL_BYTES - TOP_BYTES);
	*chunk = (struct chunk){.size = bytes | 1};
	return chunk;
}

static struct chunk *bin_head(struct arena_state *arena, size_t bin)
{
	return (void *)((uint8_t *)arena->bin[bin] - offsetof(struct chunk, forward));
}

static void arena_init(struct arena_state *arena, struct chunk *top)
{
	*arena = (struct arena_state){.top = at(top),
		.next = at(arena),
		.attached_threads = 1,
		.system_bytes = SYSTEM_BYTES,
		.system_max_bytes = SYSTEM_BYTES};
	top->size = TOP_BYTES | 1;
	for (size_t i = 0; i < ARENA_BINS; i++)
		arena->bin[i][0] = arena->bin[i][1] = at(bin_head(arena, i));
}

static struct chunk *bin_add(struct arena_state *arena, size_t bin, uint64_t bytes)
{
	struct chunk *chunk = chunk_new(bytes), *head = bin_head(arena, bin);
	struct chunk *first = (void *)(uintptr_t)head->forward;
	chunk->forward = at(first);
	chunk->backward = at(head);
	first->backward = head->forward = at(chunk);
	return chunk;
}

static struct chunk *fastbin_add(struct arena_state *arena, uint64_t bytes, bool turned)
{
	struct chunk *chunk = chunk_new(bytes);
	raddr_t *head = &arena->fast[bytes / 16 - 2];
	chunk->forward = turned ? *head ^ at(&chunk->forward) >> 12 : *head;
	*head = at(chunk);
	return chunk;
}

static void fill(struct arena_state *arena, bool turned)
{
	bin_add(arena, 2, 48);
	bin_add(arena, UNSORTED, 4096);
	bin_add(arena, LARGE, 9000 / 16 * 16 + 16);
	bin_add(arena, LARGE, 9000 / 16 * 16);
	for (int i = 0; i < 7; i++)
		fastbin_add(arena, 64, turned);
}

static void setup(void)
{
	ck_no_err(proc_open(getpid(), &self));
	ck_no_err(proc_open_mem(&self));
	pool = map(POOL_BYTES);
	pool_used = 0;
	variables = map(sizeof(*variables));
	arena_init(&variables->arena, (void *)(pool + POOL_BYTES - TOP_BYTES));
	variables->trim_threshold = variables->map_threshold = 128 * KIB;
	variables->arena_test = 8;
	variables->maps = 2;
	variables->maps_max = 65536;
	variables->maps_highest = 3;
	variables->mapped_bytes = MAPPED_BYTES;
	variables->mapped_max_bytes = 2 * MAPPED_BYTES;
	variables->break_base = at(pool);
	variables->cache_bins = 64;
	variables->cache_max_bytes = 1032;
	/* No thread caches: this program's real ones are no part of the made-up heap. */
	variables->cache_count = 0;
	static char path[] = "/lib/libc.so.6";
	module = (struct module){.path = path, .segment_count = 1};
	module.segment[0] = (struct module_segment){
		.vaddr = at(variables), .memsz = sizeof(*variables), .flags = PF_R | PF_W};
}

static struct heap_account read_account(void)
{
	const struct modules modules = {.module = &module, .count = 1};
	struct heap heap;
	ck_no_err(heap_read(&self, &modules, &heap));
	ck_assert_uint_eq(heap.count, 1);
	ck_assert_str_eq(heap.account[0].allocator, "glibc");
	return heap.account[0];
}

static void check_held(uint64_t free_bytes, uint32_t arenas)
{
	struct heap_account account = read_account();
	ck_assert_msg(account.known, "%s", account.reason);
	ck_assert_str_eq(account.reason, "");
	ck_assert_uint_eq(account.off_bytes, 0);
	ck_assert_uint_eq(account.arenas, arenas);
	ck_assert_uint_eq(account.system_bytes, arenas * SYSTEM_BYTES + MAPPED_BYTES);
	ck_assert_uint_eq(account.held_bytes, account.system_bytes - free_bytes);
}

/* Checks that the account gives a reason, and an error of at least the bytes of all blocks that are
 * not mapped by themselves. */
static void check_off(void)
{
	struct heap_account account = read_account();
	ck_assert_msg(account.known, "%s", account.reason);
	ck_assert_str_ne(account.reason, "");
	ck_assert_uint_ge(account.off_bytes, account.held_bytes - MAPPED_BYTES);
}

static void check_unknown(void)
{
	struct heap_account account = read_account();
	ck_assert(!account.known);
	ck_assert_str_ne(account.reason, "");
}

HT_TEST(every_list_counts_to_the_byte)
{
	for (int turned = 0; turned < 2; turned++) {
		setup();
		check_held(TOP_BYTES, 1);
		fill(&variables->arena, turned);
		check_held(TOP_BYTES + 48 + 4096 + 9008 + 8992 + 7 * 64, 1);
		bin_add(&variables->arena, UNSORTED, 32);
		check_held(TOP_BYTES + 48 + 4096 + 9008 + 8992 + 7 * 64 + 32, 1);
	}
}

HT_TEST(an_arena_without_a_block_holds_nothing)
{
	setup();
	variables->arena.top = at(bin_head(&variables->arena, 0));
	variables->arena.system_bytes = variables->arena.system_max_bytes = 0;
	struct heap_account account = read_account();
	ck_assert_msg(account.known, "%s", account.reason);
	ck_assert_uint_eq(account.held_bytes, MAPPED_BYTES);
	ck_assert_uint_eq(account.off_bytes, 0);
}

/* The arena is as in the C library's file, before the first malloc: the account is known, with 0
 * bytes held. */
HT_TEST(an_arena_that_was_never_used_holds_nothing)
{
	setup();
	const struct arena_state unused = {.next = at(&variables->arena), .attached_threads = 1};
	variables->arena = unused;
	struct heap_account account = read_account();
	ck_assert_msg(account.known, "%s", account.reason);
	ck_assert_uint_eq(account.held_bytes + account.off_bytes + account.system_bytes, 0);
	ck_assert_uint_eq(account.arenas, 0);
	ck_assert_str_eq(account.reason, "");
	/* One changed bit makes the state invalid, so the account is unknown. */
	for (size_t i = 0; i < sizeof(unused); i += 4) {
		variables->arena = unused;
		((uint8_t *)&variables->arena)[i] ^= 2;
		ck_assert_msg(!read_account().known, "byte %zu", i);
	}
	/* Two such states beside each other prove nothing: neither counts as an unused arena. */
	struct {
		struct arena_state arena[2];
	} *two = map(sizeof(*two));
	for (size_t i = 0; i < 2; i++)
		two->arena[i] =
			(struct arena_state){.next = at(&two->arena[i]), .attached_threads = 1};
	ck_assert(!arena_is_unused((const uint8_t *)two, sizeof(*two), at(two)));
	ck_assert(arena_is_unused((const uint8_t *)two, sizeof(two->arena[0]), at(two)));
}

static uint64_t value_of(const struct heap_account *account, enum memory_kind kind)
{
	for (size_t i = 0; i < account->value_count; i++)
		if (account->value[i].kind == kind)
			return account->value[i].bytes;
	ck_abort_msg("no value of kind %d", kind);
}

HT_TEST(free_bytes_are_reported_by_place)
{
	setup();
	fill(&variables->arena, true);
	bin_add(&variables->arena, LARGE, 5 * HT_PAGE_BYTES);
	struct heap_account account = read_account();
	const uint64_t bins_bytes = 48 + 4096 + 9008 + 8992 + 7 * 64 + 5 * HT_PAGE_BYTES;
	ck_assert_uint_eq(value_of(&account, MEMORY_GLIBC_USED), account.held_bytes);
	ck_assert_uint_eq(value_of(&account, MEMORY_GLIBC_TOP), TOP_BYTES);
	ck_assert_uint_eq(value_of(&account, MEMORY_GLIBC_BINS), bins_bytes);
	ck_assert_uint_eq(value_of(&account, MEMORY_GLIBC_MAPPED), MAPPED_BYTES);
	/* Untouched pages of the pool are not resident; these are from now on. */
	uint64_t resident = value_of(&account, MEMORY_GLIBC_FREE_RESIDENT);
	ck_assert_uint_lt(resident, TOP_BYTES + bins_bytes);
	for (size_t i = 0; i < POOL_BYTES; i += HT_PAGE_BYTES)
		*(volatile uint8_t *)(pool + i) |= 0;
	account = read_account();
	ck_assert_uint_eq(value_of(&account, MEMORY_GLIBC_FREE_RESIDENT), TOP_BYTES + bins_bytes);
}

/* Makes an arena in a glibc heap of its own, behind that heap's head. */
static struct arena_state *second_arena(void)
{
	uint8_t *heap = map(1 * MIB);
	struct arena_state *arena = (void *)(heap + 0x30);
	raddr_t owner = at(arena);
	memcpy(heap, &owner, sizeof(owner));
	arena_init(arena, (void *)(heap + 1 * MIB - TOP_BYTES));
	arena->next = at(&variables->arena);
	variables->arena.next = at(arena);
	return arena;
}

HT_TEST(all_arenas_of_the_ring_count)
{
	setup();
	struct arena_state *second = second_arena();
	fill(&variables->arena, true);
	fill(second, true);
	check_held(2 * (TOP_BYTES + 48 + 4096 + 9008 + 8992 + 7 * 64), 2);
	/* A list of arenas that does not lead back to the first one is invalid. */
	second->next = at(pool);
	check_unknown();
	second->next = 0;
	check_unknown();
	second->next = at(second);
	check_unknown();
	second->next = at(&variables->arena);
	*(raddr_t *)((uint8_t *)second - 0x30) = at(pool);
	check_unknown();
}

HT_TEST(a_list_that_contradicts_itself_is_not_believed)
{
	static const uint64_t size[] = {0, 8, 16, 33, 48 | 2, 1 << 20, UINT64_MAX & ~7ull};
	for (size_t i = 0; i < HT_ARRAY_SIZE(size); i++) {
		setup();
		fill(&variables->arena, true);
		bin_add(&variables->arena, 3, 64)->size = size[i];
		check_off();
	}
	for (int i = 0; i < 4; i++) {
		setup();
		fill(&variables->arena, true);
		struct chunk *last = bin_add(&variables->arena, LARGE, 20000);
		struct chunk *first = bin_add(&variables->arena, LARGE, 30000);
		raddr_t wrong[] = {at(first), at(last), at(pool) + 8, 0x1000};
		raddr_t forward = last->forward;
		last->forward = wrong[i];
		check_off();
		last->forward = forward;
		first->backward = wrong[i];
		check_off();
	}
	setup();
	struct chunk *chunk = bin_add(&variables->arena, LARGE, 20000);
	bin_add(&variables->arena, LARGE, 30000);
	variables->arena.bin[LARGE][1] = variables->arena.bin[LARGE][0];
	check_off();
	variables->arena.bin[LARGE][1] = at(chunk);
	check_held(TOP_BYTES + 50000, 1);
	chunk->size = SYSTEM_BYTES + 16;
	check_off();
}

/* The reader follows a circular list no further than its arena has room for chunks. */
HT_TEST(a_loop_ends)
{
	setup();
	struct chunk *chunk = fastbin_add(&variables->arena, 32, false);
	struct chunk *other = fastbin_add(&variables->arena, 32, false);
	chunk->forward = at(other);
	check_off();
	setup();
	variables->arena.system_bytes = variables->arena.system_max_bytes = 1ull << 46;
	chunk = fastbin_add(&variables->arena, 32, false);
	chunk->forward = at(chunk);
	check_off();
}

HT_TEST(too_much_to_read_is_reported)
{
	setup();
	/* Neighbours in the list mostly lie on different pages. */
	for (unsigned i = 0; i < CHUNKS; i++) {
		pool_used = i * 40503u % 65536u * 96u;
		bin_add(&variables->arena, 1, 32);
	}
	struct heap_account account = read_account();
	ck_assert(account.known);
	ck_assert_ptr_nonnull(strstr(account.reason, "it has more free blocks"));
	uint64_t held_bytes = account.held_bytes - MAPPED_BYTES;
	ck_assert_uint_eq(account.off_bytes, held_bytes);
	ck_assert_uint_gt(held_bytes, SYSTEM_BYTES - TOP_BYTES - 32 * CHUNKS);
	ck_assert_uint_lt(held_bytes, SYSTEM_BYTES - TOP_BYTES - 32 * (CHUNKS / 4));
}

HT_TEST(an_arena_that_makes_no_sense_is_unknown)
{
	for (int i = 0; i < 9; i++) {
		setup();
		struct arena_state *arena = &variables->arena;
		fill(arena, true);
		check_held(TOP_BYTES + 48 + 4096 + 9008 + 8992 + 7 * 64, 1);
		switch (i) {
		case 0:
			arena->top = 0x1000;
			break;
		case 1:
			arena->top += 8;
			break;
		case 2:
			arena->bin[50][0] = at(pool) + 4;
			break;
		case 3:
			arena->bin[ARENA_BINS - 1][1] = at(pool);
			break;
		case 4:
			arena->system_bytes = arena->system_max_bytes + 1;
			break;
		case 5:
			arena->mutex = 77;
			break;
		case 6:
			arena->system_bytes = 16 * KIB;
			break;
		case 7:
			memset(arena, 0xff, sizeof(*arena));
			break;
		case 8:
			memset(arena, 0, sizeof(*arena));
			break;
		}
		check_unknown();
	}
}

HT_TEST(two_candidates_are_rejected)
{
	setup();
	struct {
		struct variables first;
		struct arena_state second;
	} *both = map(sizeof(*both));
	both->first = *variables;
	arena_init(&both->first.arena, (void *)(pool + POOL_BYTES - TOP_BYTES));
	module.segment[0].vaddr = at(both);
	module.segment[0].memsz = sizeof(*both);
	check_held(TOP_BYTES, 1);
	arena_init(&both->second, (void *)(pool + POOL_BYTES - TOP_BYTES));
	check_unknown();
}

HT_TEST(parameters_that_make_no_sense_are_unknown)
{
	for (int i = 0; i < 6; i++) {
		setup();
		switch (i) {
		case 0:
			variables->mapped_bytes++;
			break;
		case 1:
			variables->mapped_bytes = 3 * MAPPED_BYTES;
			break;
		case 2:
			variables->maps = 0;
			break;
		case 3:
			variables->cache_bins = 63;
			break;
		case 4:
			variables->break_base = 0x1000;
			break;
		case 5:
			variables->fixed_threshold = 2;
			break;
		}
		check_unknown();
	}
}

/* Words that are mostly zero are not taken for malloc's parameters. */
HT_TEST(zeros_are_no_parameters)
{
	setup();
	variables->between[8] = 5;
	variables->between[13] = 1;
	check_held(TOP_BYTES, 1);
}

HT_TEST(parameters_as_they_were_before_huge_pages)
{
	setup();
	uint8_t *old = (uint8_t *)&variables->trim_threshold;
	int32_t counts[] = {2, 65536, 3, 0};
	uint64_t tail[] = {MAPPED_BYTES, MAPPED_BYTES, at(pool), 64, 1032, 0, 0};
	memset(old + 0x28, 0, sizeof(*variables) - offsetof(struct variables, thp));
	memcpy(old + 0x28, counts, sizeof(counts));
	memcpy(old + 0x38, tail, sizeof(tail));
	check_held(TOP_BYTES, 1);
}

HT_TEST(threads_whose_caches_are_not_found_are_allowed_for)
{
	setup();
	variables->cache_count = 1;
	variables->cache_bins = 1;
	variables->cache_max_bytes = 24;
	struct heap_account account = read_account();
	ck_assert(account.known);
	/* This thread's real cache exceeds these parameters: the reader does not find the cache, so
	 * the account's error covers it. */
	ck_assert_uint_eq(account.off_bytes, 32);
	ck_assert_ptr_nonnull(strstr(account.reason, "1 of 1 threads"));
	/* The allowance for caches never exceeds the bytes that are handed out. */
	variables->arena.system_bytes = TOP_BYTES + 16;
	account = read_account();
	ck_assert_uint_eq(account.held_bytes, 16 + MAPPED_BYTES);
	ck_assert_uint_eq(account.off_bytes, 16);
}

/* A module without segments, unmapped variables, and a segment of impossible size. */
HT_TEST(nothing_to_read_is_unknown)
{
	setup();
	module.segment_count = 0;
	check_unknown();
	setup();
	munmap(variables, sizeof(*variables));
	check_unknown();
	setup();
	module.segment[0].memsz = UINT64_MAX / 2;
	check_unknown();
}

HT_TEST(another_allocator_is_named)
{
	static const struct family jemalloc = {
		.allocator = "jemalloc", .prefix = "_rjem_", .hooked = true};
	struct native native = {.family = &jemalloc, .role = FAMILY_HOOKED};
	const struct modules modules = {.module = &module, .count = 1};
	struct heap heap;
	setup();
	module.natives = (struct natives){.native = &native, .count = 1};
	ck_no_err(heap_read(&self, &modules, &heap));
	ck_assert_uint_eq(heap.count, 2);
	ck_assert_str_eq(heap.account[0].allocator, "jemalloc");
	ck_assert(!heap.account[0].known && heap.account[1].known);
	/* Without a state of glibc's malloc its heap is not listed. */
	memset(&variables->arena, 0, sizeof(variables->arena));
	ck_no_err(heap_read(&self, &modules, &heap));
	ck_assert_uint_eq(heap.count, 1);
}

HT_SUITE("attach/heap")
