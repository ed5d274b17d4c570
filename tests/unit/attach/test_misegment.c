/* SPDX-License-Identifier: Apache-2.0
 *
 * mimalloc's segments and heaps in the layouts since 2.1.4: each layout is recognised, counts to
 * the byte, and gives an unknown account if it is inconsistent. test_mimalloc.c has the earlier
 * versions and what all have in common.
 */
#include "attach/heap/mimalloc/misegment.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "attach/heap/mimalloc/mimalloc.h"
#include "attach/process/proc_open.h"
#include "tests/support/ht_check.h"

#define BOOKS_READER mimalloc_reader
#include "tests/unit/attach/madebooks.h"

#define PAGE	   4096u
#define MIB	   (1024u * 1024u)
#define SLICE	   65536u
#define SLICES	   512u
#define SLICE_SIZE 96u
#define VARIABLES  MIB
#define COOKIE	   0x123456789abcdef1ull
#define PLACE	   (20u * PAGE - 1000u) /* of the heap, among the variables */

/* By version, in bytes: the largest medium block, and offsets in heap and segment. */
static const struct version {
	uint64_t medium_max, queues, heap_bytes;
	uint64_t commit, used, cookie, extent, slices;
} versions[] = {
	{131072, 1264, 3064, 112, 208, 216, 224, 264}, /* 2.1.7 */
	{131072, 1264, 3064, 120, 216, 224, 248, 288}, /* 2.1.9 */
	{65536, 1280, 3080, 120, 216, 224, 248, 288},  /* 2.2.4 */
	{65536, 1288, 3088, 120, 216, 224, 248, 288},  /* 2.4.1 */
};

static const struct version *version;
static uint8_t *variables, *segment;
static unsigned next_slice;
static uint64_t held;

static void put(uint8_t *place, uint64_t value, size_t bytes)
{
	memcpy(place, &value, bytes);
}

static uint64_t word_of(const uint8_t *place)
{
	uint64_t word;
	memcpy(&word, place, sizeof(word));
	return word;
}

static void add(uint8_t *place, uint64_t value)
{
	put(place, word_of(place) + value, 8);
}

static uint8_t *heap(void)
{
	return variables + PLACE;
}

static uint8_t *slice(unsigned index)
{
	return segment + version->slices + (size_t)index * SLICE_SIZE;
}

static uint64_t size_of(unsigned queue)
{
	static const uint8_t quarter[] = {5, 6, 7, 8};
	if (queue <= 8)
		return queue ? queue * 8 : 8;
	return queue > 72 ? version->medium_max + (queue - 72) * 8
			  : (16ull << (queue - 9) / 4) * quarter[(queue - 9) % 4];
}

/* Makes a segment and writes the words about the whole of it: slices, slices before the first page,
 * huge, entries, thread. */
static void segment_init(uint64_t slices, bool is_huge)
{
	raddr_t any = at(map(64 * MIB)) + 32 * MIB - 1;
	segment = (void *)(uintptr_t)(any & ~(raddr_t)(32 * MIB - 1));
	uint8_t *extent = segment + version->extent;
	memset(segment + version->commit, 0xff, 64);
	put(segment + version->cookie, at(segment) ^ COOKIE, 8);
	put(extent, slices, 8);
	put(extent + 8, 1, 8);
	put(extent + 16, is_huge, 4);
	put(extent + 24, slices < SLICES ? slices : SLICES, 8);
	put(extent + 32, at((void *)pthread_self()), 8);
	put(slice(0), 1, 4);
	put(slice(0) + 40, SLICE, 8);
	next_slice = 1;
}

static void rest_init(void)
{
	put(slice(next_slice), SLICES - next_slice, 4);
	put(slice(next_slice) + 40, 0, 8);
	if (next_slice < SLICES - 1)
		put(slice(SLICES - 1) + 4, (SLICES - 1 - next_slice) * SLICE_SIZE, 4);
}

/* `start` is the offset of the first block in the page. */
static uint8_t *page_at(
	unsigned index, uint64_t slices, uint64_t bytes, uint64_t start, unsigned used)
{
	uint8_t *now = slice(index);
	uint64_t reserved = (slices * SLICE - start) / bytes;
	memset(now, 0, SLICE_SIZE);
	put(now, slices, 4);
	put(now + 10, reserved, 2);
	put(now + 12, reserved, 2);
	put(now + 32, used, 2);
	put(now + 40, bytes, 8);
	put(now + 48, at(segment) + (uint64_t)index * SLICE + start, 8);
	put(now + 64, at(heap()), 8);
	ck_assert_uint_le(used, reserved);
	add(segment + version->used, 1);
	add(heap() + 192, 1);
	held += used * bytes;
	return now;
}

static uint8_t *page(uint64_t slices, uint64_t bytes, uint64_t start, unsigned used)
{
	unsigned index = next_slice;
	uint8_t *now = page_at(index, slices, bytes, start, used);
	for (unsigned i = 1; i < slices; i++)
		put(slice(index + i) + 4, i * SLICE_SIZE, 4);
	next_slice += (unsigned)slices;
	rest_init();
	return now;
}

/* Makes a page of each size, with the first block at offsets as these versions have them. */
static void fill(void)
{
	for (unsigned i = 1; size_of(i) <= version->medium_max; i++) {
		uint64_t bytes = size_of(i);
		uint64_t start = (bytes <= 512 ? i % 3 * bytes : 0) + i % 5 * bytes / 64 * 8;
		page(bytes <= version->medium_max / 8 ? 1 : 8, bytes, start, i % 3);
	}
	page(3, 3 * SLICE - PAGE, 0, 1);
	page(16, 9 * SLICE, 0, 1);
}

static void setup(unsigned index)
{
	static char path[] = "/lib/libmimalloc.so.2";
	static bool is_open;
	if (!is_open) {
		ck_no_err(proc_open(getpid(), &self));
		ck_no_err(proc_open_mem(&self));
	}
	is_open = true;
	if (segment)
		put(segment + version->cookie, 0, 8);
	version = &versions[index];
	held = 0;
	variables = map(VARIABLES);
	uint8_t *own = variables + 5 * PAGE;
	put(own + 16, at(heap()), 8);
	put(heap(), at(own), 8);
	put(heap() + 16, at((void *)pthread_self()), 8);
	put(heap() + 32, COOKIE, 8);
	for (unsigned i = 0; i < 75; i++)
		put(heap() + version->queues + i * 24 + 16, size_of(i), 8);
	module = (struct module){.path = path, .segment_count = 1};
	module.segment[0] = (struct module_segment){
		.vaddr = at(variables), .memsz = VARIABLES, .flags = PF_R | PF_W};
	segment_init(SLICES, false);
	fill();
}

/* Checks that the account is unknown, or that its error is at least `bytes`. */
static void check_doubted(uint64_t bytes)
{
	bool found;
	struct heap_account account = read_account(&found);
	ck_assert(!found || !account.known || account.off_bytes >= bytes);
}

static void check_version(unsigned index)
{
	setup(index);
	check_held(held);
}

HT_TEST(each_version_counts_to_the_byte)
{
	for (unsigned i = 0; i < HT_ARRAY_SIZE(versions); i++)
		check_version(i);
}

/* A huge block counts with its real size, even beyond 32 bits. */
static void check_huge(unsigned index)
{
	static const uint64_t slices[] = {400, 60000, 300000};
	for (unsigned i = 0; i < HT_ARRAY_SIZE(slices); i++) {
		setup(index);
		check_held(held);
		uint8_t *before = segment;
		segment_init(slices[i], true);
		uint8_t *now = page_at(1, slices[i] - 1, (slices[i] - 1) * SLICE, 0, 1);
		check_held(held);
		put(now + 40, (slices[i] - 1) * SLICE - 8, 8);
		check_doubted((slices[i] - 1) * SLICE);
		put(segment + version->cookie, 0, 8);
		segment = before;
	}
}

HT_TEST(a_huge_block_counts)
{
	for (unsigned i = 0; i < HT_ARRAY_SIZE(versions); i++)
		check_huge(i);
}

/* A list is checked against the beginning of the blocks that the page itself states. */
static void check_lists(unsigned index)
{
	setup(index);
	uint8_t *now = page(1, 48, 160, 20);
	raddr_t start = word_of(now + 48), list = 0;
	for (unsigned i = 3; i < 7; i++) {
		put((uint8_t *)(uintptr_t)(start + i * 48), list, 8);
		list = start + i * 48;
	}
	put(now + 56, list | 2, 8);
	put((uint8_t *)(uintptr_t)(start + 9 * 48), 0, 8);
	put(heap() + 8, start + 9 * 48, 8);
	held -= 5 * 48;
	check_held(held);
	/* The list leads to an address that is no block's beginning. */
	put(heap() + 8, start + 9 * 48 + 8, 8);
	check_doubted(20 * 48);
}

HT_TEST(blocks_freed_by_other_threads_are_not_held)
{
	for (unsigned i = 0; i < HT_ARRAY_SIZE(versions); i++)
		check_lists(i);
}

static void check_pages(unsigned index)
{
	for (unsigned i = 0; i < 9; i++) {
		setup(index);
		uint8_t *now = page(1, 320, 640, 10);
		check_held(held);
		if (i == 0)
			put(now + 32, 203, 2);
		if (i == 1)
			put(now + 12, 201, 2);
		if (i == 2)
			put(now + 40, 328, 8);
		if (i == 3)
			put(now + 48, at(segment), 8);
		if (i == 4)
			put(now + 48, word_of(now + 48) + 4, 8);
		if (i == 5)
			put(now + 48, 0, 8);
		if (i == 6)
			put(now, 8, 4);
		if (i == 7)
			put(now + 40, 320 | 1ull << 32, 8);
		if (i == 8)
			put(now + 4, SLICE_SIZE, 4);
		check_unknown();
	}
}

HT_TEST(a_page_that_contradicts_itself_is_not_believed)
{
	for (unsigned i = 0; i < HT_ARRAY_SIZE(versions); i++)
		check_pages(i);
}

/* A block of nine slices has a page of sixteen; a block of three slices has a page of three. */
static void check_large(unsigned index)
{
	static const struct {
		uint64_t slices, bytes;
	} wrong[] = {{4, 3 * SLICE}, {9, 9 * SLICE}, {24, 9 * SLICE}, {3, 3 * SLICE - 8},
		{264, 257 * SLICE}};
	for (unsigned i = 0; i < HT_ARRAY_SIZE(wrong); i++) {
		setup(index);
		page(wrong[i].slices, wrong[i].bytes, 0, 1);
		check_unknown();
	}
}

HT_TEST(a_large_page_is_as_large_as_it_must_be)
{
	for (unsigned i = 0; i < HT_ARRAY_SIZE(versions); i++)
		check_large(i);
}

/* A large page of one version is invalid in the other, and a segment has one layout throughout. */
static void check_apart(unsigned index)
{
	const struct version *own = &versions[index], *other = &versions[3 - index];
	setup(index);
	page(own->medium_max == 65536 ? 1 : 2, own->medium_max == 65536 ? 10240 : 81920, 0, 1);
	check_unknown();
	setup(index);
	uint64_t word = word_of(segment + own->cookie);
	put(segment + own->cookie, 0, 8);
	put(segment + (own->cookie == 216 ? 224 : 216), word, 8);
	check_unknown();
	setup(index);
	for (unsigned i = 73; i < 75; i++)
		put(heap() + own->queues + i * 24 + 16, other->medium_max + (i - 72) * 8, 8);
	check_unknown();
}

HT_TEST(versions_are_distinguished)
{
	for (unsigned i = 0; i < HT_ARRAY_SIZE(versions); i++)
		check_apart(i);
}

HT_SUITE("attach/misegment")
