/* SPDX-License-Identifier: Apache-2.0
 *
 * jemalloc's map of its extents, and its caches, as a program that means no good, or is in the
 * middle of something, could leave them: what is handed out is counted to the byte, and what
 * contradicts itself is never taken for known.
 */
#include "attach/heap/jemalloc.h"

#include <elf.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "attach/heap/emap.h"
#include "attach/heap/threads.h"
#include "tests/support/ht_check.h"

#define PAGE	   4096u
#define MIB	   (1024u * 1024u)
#define POOL_BYTES (64 * MIB)
#define VARIABLES  (3 * MIB)
#define NODES	   16u
#define EDATAS	   20000u
#define CACHE_BINS 41u
#define SLOTS	   20u

enum state { ACTIVE, DIRTY, MUZZY, RETAINED };

struct edata {
	uint64_t bits;
	raddr_t addr;
	uint64_t size, rest[5], free[8];
};

struct bin {
	raddr_t head;
	uint64_t requests;
	uint16_t low_water, full, empty, more;
};

struct slow {
	raddr_t link[2], next, previous, bins;
};

struct cache {
	raddr_t slow;
	struct bin bin[CACHE_BINS];
};

static _Thread_local struct {
	struct slow slow;
	struct cache cache;
} own;

static const struct emap_shape *shape;
static uint8_t *variables; /* the root is among them */
static raddr_t *root;
static uint8_t *pool; /* where blocks lie */
static size_t pool_used;
static struct edata *edata;
static size_t edata_count;
static raddr_t nodes; /* a node of either level for each, one after the other */
static size_t nodes_used;
static struct proc self;
static struct module module;

static raddr_t at(const void *pointer)
{
	return (raddr_t)(uintptr_t)pointer;
}

static void *pointer(raddr_t addr)
{
	return (void *)(uintptr_t)addr;
}

static void *map(size_t bytes)
{
	void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	ck_assert_ptr_ne(pages, MAP_FAILED);
	return pages;
}

/* The entry of the leaf for an address, made with all that leads to it. */
static uint8_t *entry_of(raddr_t addr)
{
	raddr_t *word = root;
	for (unsigned level = 0;; level++) {
		uint64_t index =
			addr >> emap_page_bits(shape, level) & ((1ull << shape->bits[level]) - 1);
		if (level + 1 == shape->levels)
			return (uint8_t *)word + index * shape->leaf_bytes;
		if (!word[index]) {
			ck_assert_uint_lt(nodes_used, NODES);
			word[index] = nodes + nodes_used++ * (3 * MIB) + 64;
		}
		word = pointer(word[index]);
	}
}

static void name(raddr_t page, const struct edata *by, unsigned class, bool slab)
{
	uint8_t *entry = entry_of(page);
	uint64_t word = at(by);
	if (shape->leaf_bytes == 8) {
		word |= (uint64_t) class << 48 | slab;
	} else {
		uint32_t more = class << 5 | slab;
		memcpy(entry + 8, &more, sizeof(more));
	}
	memcpy(entry, &word, sizeof(word));
}

static struct edata *extent(
	enum state state, unsigned class, bool slab, unsigned pages, unsigned free)
{
	struct edata *now = &edata[edata_count++];
	raddr_t addr = at(pool) + pool_used;
	pool_used += pages * PAGE;
	ck_assert_uint_le(pool_used, POOL_BYTES);
	ck_assert_uint_le(edata_count, EDATAS);
	*now = (struct edata){.bits = 3u | (uint64_t)slab << 12 | 1u << 13 | (uint64_t)state << 17 |
				      (uint64_t) class << 20 | (uint64_t)free << 28,
		.addr = addr,
		.size = pages * PAGE | 5};
	for (unsigned i = 0; i < pages; i++)
		if (slab || i == 0 || i == pages - 1)
			name(addr + i * PAGE, now, class, slab);
	return now;
}

/* Words of the bitmap that a slab does not need hold anything. */
static struct edata *slab(unsigned class, unsigned pages, unsigned free)
{
	struct edata *now = extent(ACTIVE, class, true, pages, free);
	uint64_t count = pages * PAGE / emap_class_bytes(class);
	for (uint64_t i = 0; i < free; i++)
		now->free[i / 64] |= 1ull << i % 64;
	for (uint64_t i = (count + 63) / 64; i < 8; i++)
		now->free[i] = 0x7f0123456789ull;
	return now;
}

/* What jemalloc has found for a size: with a page that is not the block's. */
static struct edata *large(unsigned class, unsigned more)
{
	unsigned pages = (unsigned)(emap_class_bytes(class) / PAGE);
	struct edata *now = extent(ACTIVE, class, false, pages + more, 0);
	now->addr += more ? 640 : 0;
	return now;
}

static uint64_t fill(unsigned more)
{
	slab(0, 1, 100);
	slab(3, 3, 11);
	slab(4, 1, 64);
	slab(9, 5, 0);
	slab(35, 7, 1);
	large(36, more);
	large(41, more);
	extent(DIRTY, EMAP_CLASSES, false, 4, 0);
	extent(RETAINED, EMAP_CLASSES, false, 100, 0);
	/* What another is about to have. */
	extent(ACTIVE, EMAP_CLASSES, false, 2, 0);
	return (512 - 100) * 8 + (256 - 11) * 48 + 128 * 160 + 14336 + 16384 + emap_class_bytes(41);
}

/* One cache, with stacks behind each other. */
static uint64_t cache_fill(struct cache *cache, struct slow *slow, unsigned each)
{
	raddr_t stack = at(map(CACHE_BINS * SLOTS * 8 + 16)) + 8;
	uint64_t bytes = 0;
	cache->slow = at(slow);
	slow->bins = at(cache->bin);
	slow->next = slow->previous = at(&slow->next);
	for (unsigned i = 0; i < CACHE_BINS; i++) {
		unsigned count = each ? each + i % 3 : 0;
		raddr_t end = stack + SLOTS * 8;
		cache->bin[i] = (struct bin){
			.head = end - count * 8, .full = (uint16_t)stack, .empty = (uint16_t)end};
		bytes += count * emap_class_bytes(i);
		stack = end;
	}
	return bytes;
}

static void setup_as(unsigned index)
{
	static bool is_open;
	static char path[] = "/lib/libjemalloc.so.2";
	shape = &emap_shapes[index];
	if (!is_open) {
		ck_no_err(proc_open(getpid(), &self));
		ck_no_err(proc_open_mem(&self));
	}
	is_open = true;
	pool = map(POOL_BYTES);
	variables = map(VARIABLES);
	root = pointer(at(variables) + 3 * PAGE + 0x98);
	edata = map(EDATAS * sizeof(*edata));
	nodes = at(map(NODES * 3 * MIB));
	pool_used = edata_count = nodes_used = 0;
	(void)cache_fill(&own.cache, &own.slow, 0);
	module = (struct module){.path = path, .segment_count = 1};
	module.segment[0] = (struct module_segment){
		.vaddr = at(variables), .memsz = VARIABLES, .flags = PF_R | PF_W};
}

static void setup(void)
{
	setup_as(0);
}

static struct heap_account read_account(bool *ret_found)
{
	struct view view;
	struct heap_account account;
	ck_no_err(view_init(&view, &self));
	ck_no_err(jemalloc_read(&view, &module, &account, ret_found));
	ck_no_err(view_deinit(&view));
	return account;
}

static struct heap_account read_known(void)
{
	bool found;
	struct heap_account account = read_account(&found);
	ck_assert(found);
	ck_assert_msg(account.known, "%s", account.reason);
	return account;
}

/* Unknown, or no jemalloc at all. */
static void check_unknown(void)
{
	bool found;
	struct heap_account account = read_account(&found);
	ck_assert(!found || !account.known);
	ck_assert(!found || account.reason[0]);
}

static void check_exact(uint64_t held_bytes)
{
	struct heap_account account = read_known();
	ck_assert_uint_eq(account.held_bytes, held_bytes);
	ck_assert_str_eq(account.reason, "");
	ck_assert_uint_eq(account.off_bytes, 0);
	ck_assert_uint_eq(account.arenas, 1);
	ck_assert_uint_eq(account.header_bytes, 0);
}

START_TEST(every_extent_counts_to_the_byte)
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
END_TEST

/* As of 5.3.1; and small ones of which a sample is taken. */
START_TEST(large_blocks_of_any_pages)
{
	setup();
	uint64_t held = fill(1);
	extent(ACTIVE, 41, false, 10, 0);
	extent(ACTIVE, 7, false, 5, 0);
	check_exact(held + 9 * PAGE + 112);
	/* Nothing tells whether a page of it is none of the block. */
	setup();
	held = fill(0);
	extent(ACTIVE, 41, false, 9, 0);
	struct heap_account account = read_known();
	ck_assert_uint_eq(account.held_bytes, held + 9 * PAGE);
	ck_assert_uint_eq(account.off_bytes, PAGE);
	ck_assert_str_ne(account.reason, "");
}
END_TEST

START_TEST(what_is_cached_is_not_held)
{
	setup();
	uint64_t held = fill(1);
	large(68, 1);
	held += emap_class_bytes(68);
	check_exact(held - cache_fill(&own.cache, &own.slow, 2));
	/* One of a thread that is not found, in the same ring. */
	struct {
		struct slow slow;
		struct cache cache;
	} *other = map(PAGE);
	held -= cache_fill(&own.cache, &own.slow, 2);
	held -= cache_fill(&other->cache, &other->slow, 5);
	own.slow.next = own.slow.previous = at(&other->slow.next);
	other->slow.next = other->slow.previous = at(&own.slow.next);
	check_exact(held);
	/* A ring that is no ring. */
	other->slow.previous = at(&other->slow.next);
	struct heap_account account = read_known();
	ck_assert_uint_ge(account.off_bytes, SLOTS * 32768);
	ck_assert_str_ne(account.reason, "");
}
END_TEST

START_TEST(caches_that_are_not_found_are_allowed_for)
{
	setup();
	uint64_t held = fill(1);
	own.slow.bins++;
	for (int i = 0; i < 2; i++) {
		struct heap_account account = read_known();
		ck_assert_uint_eq(account.held_bytes, held);
		ck_assert_uint_ge(account.off_bytes, held);
		ck_assert_str_ne(account.reason, "");
		memset(&own, 0, sizeof(own));
	}
}
END_TEST

static void check_off_by(uint64_t bytes)
{
	struct heap_account account = read_known();
	ck_assert_uint_ge(account.off_bytes, bytes);
	ck_assert_str_ne(account.reason, "");
}

START_TEST(an_extent_that_contradicts_itself_is_allowed_for)
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
END_TEST

START_TEST(more_than_a_few_are_no_map)
{
	setup();
	for (unsigned j = 0; j < 400; j++)
		slab(20, 5, 7)->bits += (uint64_t)(j >= 300) << 28;
	check_unknown();
}
END_TEST

START_TEST(nothing_to_read_is_unknown)
{
	setup();
	check_unknown();
	/* An extent that nobody has is none to go by. */
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
END_TEST

START_TEST(two_maps_are_none)
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
END_TEST

/* Each would be looked behind, were it taken for a part of the map. */
START_TEST(arrays_of_pointers_do_not_hide_it)
{
	setup();
	uint64_t held = fill(1);
	static raddr_t *more;
#ifdef __SANITIZE_ADDRESS__
	/* Its allocator has more GiBs mapped than are listed. */
	return;
#endif
	more = map(32 * MIB);
	variables = (uint8_t *)more;
	for (size_t i = 0; i < 28 * MIB / sizeof(*more); i++)
		more[i] = at(pool) + i % 100000 * 64;
	root = pointer(at(more) + 29 * MIB);
	/* As sanitizers do; address space where nothing is. */
	ck_assert_ptr_ne(mmap(NULL, 8ull << 40, PROT_NONE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0),
		MAP_FAILED);
	module.segment[0].vaddr = at(more);
	module.segment[0].memsz = 32 * MIB;
	edata_count = pool_used = 0;
	ck_assert_uint_eq(fill(1), held);
	check_exact(held);
}
END_TEST

/* Each pointer would be compared with each of some thousand places, for more than 40 s. */
START_TEST(pointers_of_a_scattered_program_do_not_keep_us)
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
END_TEST

START_TEST(a_tree_without_end_ends)
{
	for (unsigned i = 0; i < EMAP_SHAPES; i++) {
		setup_as(i);
		fill(1);
		raddr_t index = at(pool) >> emap_page_bits(shape, 0);
		/* All lead to the same node, and in that one all to the same extent, or to itself.
		 */
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
END_TEST

static uint64_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return *state >> 20;
}

/* Any word of it may say anything: it ends, and what is known is within what there is. */
START_TEST(scribbled_over_it_ends)
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
END_TEST

/* Where something else is mapped not far below, as chance will have it, what lies between is none.
 */
START_TEST(variables_end_at_a_hole)
{
	static uint8_t data[THREADS_VARIABLES_BYTES];
	struct view view;
	uint8_t *pages = map(4 * PAGE);
	raddr_t block = at(pages) + 4 * PAGE - THREADS_BLOCK_ALIGN;
	const struct threads threads = {.block = &block, .count = 1};
	setup();
	pages[2 * PAGE] = 7;
	munmap(pages + PAGE, PAGE);
	ck_no_err(view_init(&view, &self));
	ck_assert_uint_eq(
		threads_variables(&view, &threads, 0, data), 2 * PAGE - THREADS_BLOCK_ALIGN);
	ck_assert_uint_eq(data[0], 7);
	ck_no_err(view_deinit(&view));
	munmap(pages, 4 * PAGE);
}
END_TEST

HT_SUITE("attach/jemalloc", variables_end_at_a_hole, every_extent_counts_to_the_byte,
	large_blocks_of_any_pages, what_is_cached_is_not_held,
	caches_that_are_not_found_are_allowed_for, an_extent_that_contradicts_itself_is_allowed_for,
	more_than_a_few_are_no_map, nothing_to_read_is_unknown, two_maps_are_none,
	arrays_of_pointers_do_not_hide_it, pointers_of_a_scattered_program_do_not_keep_us,
	a_tree_without_end_ends, scribbled_over_it_ends)
