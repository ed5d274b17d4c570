/* SPDX-License-Identifier: Apache-2.0
 *
 * mimalloc's map of its pages (3.x), made up in this process. Pages of either form count to the
 * byte, in an arena or mapped by themselves, described in front of their blocks or apart. An
 * account of contradictory data is never known.
 */
#include "attach/heap/mimalloc/mimap.h"

#include <elf.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "attach/heap/mimalloc/mimalloc.h"
#include "attach/process/proc_open.h"
#include "tests/support/ht_check.h"

#define BOOKS_READER mimalloc_reader
#include "tests/unit/attach/madebooks.h"

#define PAGE	    4096u
#define MIB	    (1024u * 1024u)
#define SLICE	    65536u
#define VARIABLES   (2 * MIB)
#define ROOT_BYTES  (2 * MIB)
#define SUBS	    4u
#define SUB_BYTES   SLICE
#define ARENA_BYTES (128 * MIB)
#define PAGES	    4000u
#define KIND_SYSTEM 4u
#define KIND_ARENA  7u

/* The description of a page. `start` is the address of the first block in 3.0 to 3.3 (MIMAP_START),
 * and its distance in words as of 3.4 (MIMAP_OFFSET). */
struct page {
	uint64_t thread, free;
	uint16_t used, capacity, reserved, more;
	uint64_t local_free, thread_free, block_bytes, start, tail[9];
};

static uint8_t *variables;
static raddr_t *root;
static raddr_t subs;
static unsigned subs_used;
static uint8_t *arena;
static size_t next_slice;
static struct page *apart;
static size_t apart_used;
static enum mimap_form form;
static bool is_apart;

static raddr_t *word_of(raddr_t addr)
{
	raddr_t *entry = &root[addr / SLICE / 8192];
	if (!*entry) {
		ck_assert_uint_lt(subs_used, SUBS);
		*entry = subs + subs_used++ * SUB_BYTES;
	}
	return (raddr_t *)pointer(*entry) + addr / SLICE % 8192;
}

static void set_start(struct page *page, raddr_t start)
{
	page->start = form == MIMAP_START ? start : (start - at(page)) / 8 | 5ull << 32;
}

static raddr_t start_of(const struct page *page)
{
	return form == MIMAP_START ? page->start : at(page) + (uint32_t)page->start * 8ull;
}

static uint64_t *memory_of(struct page *page)
{
	return &page->tail[form == MIMAP_START ? 5 : 4];
}

/* Makes a page of `slices` slices in the arena. */
static struct page *page(uint64_t bytes, unsigned slices, unsigned used)
{
	uint8_t *first = arena + next_slice * SLICE;
	struct page *now = is_apart ? &apart[apart_used++] : (void *)first;
	uint64_t room = slices * SLICE - PAGE;
	unsigned reserved = (unsigned)(room / bytes);
	uint64_t named = (reserved * bytes + SLICE - 1) / SLICE;
	ck_assert_uint_le(apart_used, PAGES);
	ck_assert_uint_le((next_slice + slices) * SLICE, ARENA_BYTES);
	*now = (struct page){.thread = 0x7000 + 8 * (next_slice % 3) + 3,
		.used = (uint16_t)used,
		.capacity = (uint16_t)(used + (used < reserved)),
		.reserved = (uint16_t)reserved,
		.thread_free = 1,
		.block_bytes = bytes};
	set_start(now, at(first) + PAGE / 2);
	memory_of(now)[0] = at(arena);
	memory_of(now)[1] = next_slice | (uint64_t)slices << 32;
	memory_of(now)[2] = KIND_ARENA;
	for (unsigned i = 0; i < named && i < MIMAP_RUN_MAX; i++)
		*word_of(at(first) + i * SLICE) = at(now);
	next_slice += slices;
	return now;
}

/* Makes a block that is mapped by itself, with its description in front of it. Returns its bytes.
 */
static uint64_t huge(uint64_t bytes)
{
	uint8_t *mapped = map(bytes + 3 * SLICE);
	raddr_t first = (at(mapped) + SLICE - 1) & ~(raddr_t)(SLICE - 1);
	struct page *now = pointer(first);
	*now = (struct page){.thread = 0x7000,
		.used = 1,
		.capacity = 1,
		.reserved = 1,
		.thread_free = 1,
		.block_bytes = bytes};
	set_start(now, first + PAGE);
	memory_of(now)[0] = at(mapped);
	memory_of(now)[1] = bytes + 3 * SLICE;
	memory_of(now)[2] = KIND_SYSTEM;
	for (unsigned i = 0; i < MIMAP_RUN_MAX; i++)
		*word_of(first + i * SLICE) = first;
	return bytes;
}

static uint64_t fill(void)
{
	page(8, 1, 100);
	page(64, 1, 0);
	page(5120, 1, 7);
	page(10240, 8, 13);
	page(65536, 8, 7);
	page(229376, 64, 18);
	/* Pages of one block each. */
	page(40960, 1, 1);
	page(1032192, 16, 1);
	return 100 * 8 + 7 * 5120 + 13 * 10240 + 7 * 65536 + 18 * 229376 + 40960 + 1032192;
}

static void setup_as(enum mimap_form new_form, bool new_apart)
{
	static bool is_open;
	static char path[] = "/lib/libmimalloc.so.3";
	if (!is_open) {
		ck_no_err(proc_open(getpid(), &self));
		ck_no_err(proc_open_mem(&self));
	}
	is_open = true;
	form = new_form;
	is_apart = new_apart;
	variables = map(VARIABLES);
	root = map(ROOT_BYTES + SUB_BYTES);
	root[0] = at(root) + ROOT_BYTES;
	subs = at(map(SUBS * SUB_BYTES));
	arena = map(ARENA_BYTES + SLICE);
	arena += -at(arena) % SLICE;
	/* The descriptions of the pages lie at the arena's beginning. */
	apart = (void *)arena;
	subs_used = 0;
	apart_used = 0;
	next_slice = PAGES * sizeof(*apart) / SLICE + 1;
	/* Two variables hold the map's address: the map must be found only once. */
	((raddr_t *)(void *)variables)[1000] = at(root);
	((raddr_t *)(void *)variables)[1002] = at(root);
	/* The map leads from address 0 to a variable, as in some versions. */
	((raddr_t *)pointer(root[0]))[0] = at(variables) + 64;
	module = (struct module){.path = path, .segment_count = 1};
	module.segment[0] = (struct module_segment){
		.vaddr = at(variables), .memsz = VARIABLES, .flags = PF_R | PF_W};
}

static void check_exact(uint64_t held_bytes)
{
	struct heap_account account = check_held(held_bytes);
	ck_assert_uint_ge(account.system_bytes, held_bytes);
}

HT_TEST(every_page_counts_to_the_byte)
{
	for (unsigned i = 0; i < 4; i++) {
		setup_as(i % 2, i / 2);
		check_exact(fill());
	}
	/* If the descriptions stand in front of the blocks, no arena is needed. */
	for (unsigned i = 0; i < MIMAP_FORMS; i++) {
		setup_as(i, false);
		uint64_t held = fill();
		held += huge(5 * MIB);
		held += huge(5ull << 30);
		check_exact(held);
	}
}

static raddr_t block_of(const struct page *now, unsigned index)
{
	return start_of(now) + index * now->block_bytes;
}

static void list_fill(struct page *now, unsigned first, unsigned end)
{
	raddr_t list = 0;
	for (unsigned i = first; i < end; i++) {
		*(raddr_t *)pointer(block_of(now, i)) = list;
		list = block_of(now, i);
	}
	now->thread_free = list | 1;
}

HT_TEST(blocks_freed_by_other_threads_are_not_held)
{
	for (unsigned i = 0; i < 4; i++) {
		setup_as(i % 2, i / 2);
		uint64_t held = fill();
		list_fill(page(64, 1, 100), 7, 17);
		struct page *ended = page(320, 1, 50);
		list_fill(ended, 0, 50);
		ended->thread_free &= ~1ull;
		check_exact(held + 90 * 64);
	}
}

static void check_off_by(uint64_t bytes)
{
	struct heap_account account = read_known();
	ck_assert_uint_ge(account.off_bytes, bytes);
	ck_assert_str_ne(account.reason, "");
}

HT_TEST(a_list_that_contradicts_itself_is_allowed_for)
{
	for (unsigned i = 0; i < 5; i++) {
		setup_as(i % 2, false);
		fill();
		struct page *one = page(64, 1, 100), *two = page(64, 1, 100);
		list_fill(one, 7, 17);
		raddr_t *last = pointer(block_of(one, 7));
		if (i == 0)
			*last = block_of(one, 16);
		if (i == 1)
			*last = block_of(one, 8) + 8;
		if (i == 2)
			*last = block_of(two, 3);
		if (i == 3)
			*last = block_of(one, 200);
		if (i == 4)
			one->used = 9;
		check_off_by(one->used * 64);
	}
}

HT_TEST(a_page_that_contradicts_itself_is_allowed_for)
{
	for (unsigned i = 0; i < 12; i++) {
		setup_as(i % 2, i % 3 == 0);
		fill();
		struct page *odd = page(64, 1, 100);
		if (i == 0)
			odd->used = odd->capacity + 1;
		if (i == 1)
			odd->capacity = odd->reserved + 1;
		if (i == 2)
			odd->reserved = 0;
		if (i == 3)
			odd->block_bytes = 72;
		if (i == 4)
			odd->block_bytes = 0;
		if (i == 5)
			odd->block_bytes = 10240;
		if (i == 6)
			set_start(odd, start_of(odd) + SLICE);
		if (i == 7)
			odd->start = 0;
		if (i == 8)
			memory_of(odd)[0] += SLICE;
		if (i == 9)
			memory_of(odd)[1]++;
		if (i == 10)
			memory_of(odd)[2] = 0x7fffff;
		if (i == 11)
			odd->thread_free = 0x7001234567fd;
		check_off_by(6400);
	}
}

/* The description contradicts itself, so the block's size is unknown. */
HT_TEST(a_large_block_that_contradicts_itself_is_unknown)
{
	setup_as(MIMAP_START, false);
	fill();
	uint64_t held = fill() + huge(5ull << 30);
	ck_assert_uint_ne(held, 0);
	(void)read_known();
	raddr_t first = 0;
	for (raddr_t i = 1; i < ROOT_BYTES / sizeof(*root) && !first; i++)
		for (raddr_t k = 0; root[i] && k < 8192 && !first; k++) {
			struct page *now = pointer(((raddr_t *)pointer(root[i]))[k]);
			if (now && now->block_bytes == 5ull << 30)
				first = at(now);
		}
	struct page *odd = pointer(first);
	odd->used = 2;
	check_unknown();
}

HT_TEST(more_than_a_few_are_not_known)
{
	setup_as(MIMAP_OFFSET, true);
	for (unsigned i = 0; i < 400; i++)
		page(64, 1, 100)->capacity -= i >= 300 ? 50 : 0;
	check_unknown();
	setup_as(MIMAP_OFFSET, true);
	for (unsigned i = 0; i < 400; i++)
		page(64, 1, 100);
	check_exact(400 * 6400);
	/* These pages have the layout of another version. */
	form = MIMAP_START;
	for (unsigned i = 0; i < 100; i++)
		page(64, 1, 100);
	check_unknown();
}

HT_TEST(nothing_to_read_is_unknown)
{
	setup_as(MIMAP_START, false);
	/* No page yet. */
	check_unknown();
	fill();
	(void)read_known();
	root[0] += PAGE;
	check_unknown();
	root[0] -= PAGE;
	root[7] = 0x123456789008ull;
	check_unknown();
	root[7] = 0;
	(void)read_known();
	module.segment[0].memsz = PAGE;
	check_unknown();
	module.segment[0].memsz = VARIABLES;
	munmap(root, PAGE);
	check_unknown();
}

HT_TEST(two_maps_are_none)
{
	setup_as(MIMAP_START, false);
	fill();
	raddr_t *other = map(ROOT_BYTES + SUB_BYTES);
	memcpy(other, root, ROOT_BYTES);
	other[0] = at(other) + ROOT_BYTES;
	(void)read_known();
	((raddr_t *)(void *)variables)[7] = at(other);
	check_unknown();
}

/* All words lead to the same page, or all to the same part of the map. */
HT_TEST(a_map_without_end_ends)
{
	setup_as(MIMAP_OFFSET, false);
	fill();
	raddr_t *sub = pointer(subs), any = *word_of(at(arena) + (next_slice - 1) * SLICE);
	for (unsigned i = 0; i < 8192; i++)
		sub[i] = any;
	check_unknown();
	for (unsigned i = 0; i < 8192; i++)
		sub[i] = i % 2 ? any : any + 8;
	check_unknown();
	for (raddr_t i = 1; i < ROOT_BYTES / sizeof(*root); i++)
		root[i] = subs;
	check_unknown();
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
	setup_as(MIMAP_OFFSET, true);
	fill();
	list_fill(page(64, 1, 100), 7, 17);
	for (unsigned i = 0; i < 100; i++)
		page(48, 1, 1 + i);
	struct page *before = map(apart_used * sizeof(*before));
	raddr_t *sub = map(SUBS * SUB_BYTES);
	memcpy(before, apart, apart_used * sizeof(*apart));
	memcpy(sub, pointer(subs), SUBS * SUB_BYTES);
	size_t first = (size_t)(at(word_of(at(arena))) - subs) / sizeof(raddr_t);
	for (unsigned k = 0; k < 400; k++) {
		bool found;
		for (unsigned n = 1 + next_random(&state) % 12; n; n--) {
			bool is_map = next_random(&state) % 3 == 0;
			uint64_t *words =
				is_map ? (uint64_t *)pointer(subs) + first : (void *)apart;
			size_t count = is_map ? 100 : apart_used * sizeof(*apart) / 8;
			uint64_t *word = &words[next_random(&state) % count];
			*word = n % 2 ? *word ^ 1ull << next_random(&state) % 64
				      : next_random(&state) << 20;
		}
		struct heap_account account = read_account(&found);
		ck_assert(!found || account.known || account.reason[0]);
		memcpy(apart, before, apart_used * sizeof(*apart));
		memcpy(pointer(subs), sub, SUBS * SUB_BYTES);
	}
}

HT_SUITE("attach/mimap")
