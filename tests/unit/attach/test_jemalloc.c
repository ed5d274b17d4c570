/* SPDX-License-Identifier: Apache-2.0
 *
 * jemalloc's map of its extents, sound, hostile, or in the middle of a change: the bytes handed out
 * are counted to the byte, and an account of contradictory data is never known.
 */
#include "attach/heap/jemalloc/jemalloc.h"

#include "tests/unit/attach/jemodel.h"

HT_TEST(every_extent_counts_to_the_byte)
{
	for (unsigned i = 0; i < 2 * EMAP_SHAPES; i++) {
		setup_as(i / 2);
		uint64_t held = fill(i % 2);
		for (unsigned class = 0; class < EMAP_CLASSES_SMALL; class ++) {
			unsigned pages = class < 4 ? 1 : 7;
			slab(class, pages, (unsigned)(pages * PAGE / emap_class_bytes(class)) - 1);
			held += emap_class_bytes(class);
		}
		check_exact(held);
	}
}

/* Since 5.3.1 a large block has any number of pages; a sampled small block has its own extent. */
HT_TEST(large_blocks_of_any_pages)
{
	setup();
	uint64_t held = fill(1);
	extent(ACTIVE, 41, false, 10, 0);
	extent(ACTIVE, 7, false, 5, 0);
	check_exact(held + 9 * PAGE + 112);
	/* It is unknown whether one page belongs to the block, so the account's error is a page. */
	setup();
	held = fill(0);
	extent(ACTIVE, 41, false, 9, 0);
	struct heap_account account = read_known();
	ck_assert_uint_eq(account.held_bytes, held + 9 * PAGE);
	ck_assert_uint_eq(account.off_bytes, PAGE);
	ck_assert_str_ne(account.reason, "");
}

/* The map of one version is not read as another's, even if hardly any block is in use. */
HT_TEST(a_version_is_not_taken_for_another)
{
	for (unsigned i = 0; i < EMAP_SHAPES; i++) {
		setup_as(i);
		uint64_t held = 0;
		slab(0, 1, 0);
		held += PAGE;
		for (unsigned k = 0; k < 20; k++)
			extent(k % 2 ? DIRTY : RETAINED, EMAP_CLASSES, false, 4, 0);
		large(41, 1);
		held += emap_class_bytes(41);
		check_exact(held);
	}
}

static void check_off_by(uint64_t bytes)
{
	struct heap_account account = read_known();
	ck_assert_uint_ge(account.off_bytes, bytes);
	ck_assert_str_ne(account.reason, "");
}

/* The extent begins in the leaf of one word of the root, and ends in the leaf of the next word,
 * where all other extents are. */
HT_TEST(an_extent_across_leaves_does_not_hide_it)
{
	for (unsigned i = 0; i < 2; i++) {
		setup_as(i);
		raddr_t span = 1ull << emap_page_bits(shape, 0);
		uint8_t *pages = mmap(NULL, 2 * span, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		ck_assert_ptr_ne(pages, MAP_FAILED);
		pool = pointer(((at(pages) + span) & ~(span - 1)) - 2 * PAGE);
		extent(RETAINED, EMAP_CLASSES, false, 5, 0);
		check_exact(fill(1));
		munmap(pages, 2 * span);
	}
}

HT_TEST(an_extent_that_contradicts_itself_is_allowed_for)
{
	for (unsigned i = 0; i < 9; i++) {
		setup();
		for (unsigned j = 0; j < 100; j++)
			slab(20, 5, 7);
		struct edata *odd = slab(20, 5, 7);
		if (i == 0)
			odd->free[0] ^= 1;
		if (i == 1)
			odd->bits += 1ull << 28;
		if (i == 2)
			odd->free[0] = 0x7full << 57;
		if (i == 3)
			odd->addr += PAGE;
		if (i == 4)
			odd->bits += 1ull << 20;
		if (i == 5)
			odd->bits ^= 1ull << 12;
		if (i == 6)
			odd->size += 511 * 5 * PAGE;
		if (i == 7)
			odd->bits |= 0xfff;
		if (i == 8)
			munmap(pointer(odd->addr), 5 * PAGE);
		check_off_by(5 * PAGE);
	}
}

HT_TEST(more_than_a_few_are_no_map)
{
	setup();
	for (unsigned j = 0; j < 400; j++)
		slab(20, 5, 7)->bits += (uint64_t)(j >= 300) << 28;
	check_unknown();
}

HT_TEST(nothing_to_read_is_unknown)
{
	setup();
	check_unknown();
	/* An unused extent proves nothing. */
	extent(RETAINED, EMAP_CLASSES, false, 100, 0);
	check_unknown();
	fill(1);
	(void)read_known();
	module.segment[0].memsz = MIB;
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

HT_TEST(two_maps_are_none)
{
	setup();
	variables = map(2 * VARIABLES);
	module.segment[0].vaddr = at(variables);
	module.segment[0].memsz = 2 * VARIABLES;
	root = pointer(at(variables));
	fill(1);
	(void)read_known();
	root = pointer(at(variables) + VARIABLES);
	fill(1);
	check_unknown();
}

/* The reader would follow each word, if it took the array for a part of the map. */
HT_TEST(arrays_of_pointers_do_not_hide_it)
{
	setup();
	uint64_t held = fill(1);
	static raddr_t *more;
#ifdef __SANITIZE_ADDRESS__
	/* The sanitizer's allocator has more GiB mapped than the reader lists. */
	return;
#endif
	more = map(32 * MIB);
	variables = (uint8_t *)more;
	for (size_t i = 0; i < 28 * MIB / sizeof(*more); i++)
		more[i] = at(pool) + i % 100000 * 64;
	root = pointer(at(more) + 29 * MIB);
	/* Sanitizers reserve such address space, with nothing in it. */
	ck_assert_ptr_ne(mmap(NULL, 8ull << 40, PROT_NONE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0),
		MAP_FAILED);
	module.segment[0].vaddr = at(more);
	module.segment[0].memsz = 32 * MIB;
	edata_count = pool_used = 0;
	ck_assert_uint_eq(fill(1), held);
	check_exact(held);
}

/* 3900 readable mappings: checking each pointer against each of them takes over 40 s. */
HT_TEST(pointers_of_a_scattered_program_cost_little)
{
	const size_t bytes = 32 * MIB, places = 3900, step = 8ull << 30;
	setup();
	raddr_t *more = map(bytes);
	for (size_t i = 0; i < bytes / sizeof(*more); i++)
		more[i] = at(pool) + i % 100000 * 64;
	uint8_t *base = mmap(
		NULL, places * step, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	ck_assert_ptr_ne(base, MAP_FAILED);
	for (size_t i = 0; i < places; i++)
		ck_assert_int_eq(mprotect(base + i * step, PAGE, PROT_READ | PROT_WRITE), 0);
	module.segment[0].vaddr = at(more);
	module.segment[0].memsz = bytes;
	check_unknown();
}

HT_TEST(a_tree_without_end_ends)
{
	for (unsigned i = 0; i < EMAP_SHAPES; i++) {
		setup_as(i);
		fill(1);
		raddr_t index = at(pool) >> emap_page_bits(shape, 0);
		/* All words of the root lead to one node, and all of that node to one extent, or to
		 * the node. */
		for (size_t k = 0; k < 1u << shape->bits[0]; k++)
			root[k] = root[index];
		check_unknown();
		raddr_t *node = pointer(root[index]);
		uint64_t first = *(uint64_t *)(void *)entry_of(at(pool));
		for (size_t k = 0; k < 1u << shape->bits[1]; k++)
			node[k] = first;
		check_unknown();
		for (size_t k = 0; k < 1u << shape->bits[1]; k++)
			node[k] = k % 2 ? first : first ^ 128;
		check_unknown();
		for (size_t k = 0; k < 1u << shape->bits[1]; k++)
			node[k] = root[index];
		check_unknown();
	}
}

static uint64_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return *state >> 20;
}

/* The reader ends, whichever words are overwritten; it gives a reason if the result is unknown, and
 * counts no more bytes than there are. */
HT_TEST(scribbled_over_it_ends)
{
	uint64_t state = 1;
	for (unsigned i = 0; i < EMAP_SHAPES; i++) {
		setup_as(i);
		fill(1);
		for (unsigned k = 0; k < 200; k++)
			slab(k % 30, k % 30 < 4 ? 1 : 7, 1);
		cache_fill(&own.cache, &own.slow, 3);
		struct edata *before = map(EDATAS * sizeof(*before));
		memcpy(before, edata, edata_count * sizeof(*edata));
		uint8_t *leaf = entry_of(at(pool));
		const size_t leaf_bytes = 4096;
		uint8_t *leaf_before = map(leaf_bytes);
		memcpy(leaf_before, leaf, leaf_bytes);
		for (unsigned k = 0; k < 300; k++) {
			bool found;
			for (unsigned n = next_random(&state) % 20; n; n--) {
				uint64_t *words = n % 3 == 0   ? (void *)leaf
						  : n % 3 == 1 ? (void *)edata
							       : (void *)&own;
				size_t count = n % 3 == 0   ? leaf_bytes / 8
					       : n % 3 == 1 ? edata_count * sizeof(*edata) / 8
							    : sizeof(own) / 8;
				uint64_t *word = &words[next_random(&state) % count];
				*word = n % 2 ? *word ^ 1ull << next_random(&state) % 64
					      : next_random(&state) << 20;
			}
			struct heap_account account = read_account(&found);
			ck_assert(!found || account.known || account.reason[0]);
			ck_assert(!account.known || account.held_bytes <= POOL_BYTES + 3 * MIB);
			memcpy(edata, before, edata_count * sizeof(*edata));
			memcpy(leaf, leaf_before, leaf_bytes);
			cache_fill(&own.cache, &own.slow, 3);
		}
	}
}

HT_SUITE("attach/jemalloc")
