/* SPDX-License-Identifier: Apache-2.0
 *
 * A made-up jemalloc in this process, laid out as one of its versions has it: the map of extents,
 * and a cache of this thread.
 */
#pragma once

#include <elf.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "attach/heap/jemalloc/emap.h"
#include "attach/heap/jemalloc/jemalloc.h"
#include "attach/heap/view/threads.h"
#include "attach/process/proc_open.h"
#include "tests/support/ht_check.h"

#define BOOKS_READER jemalloc_reader
#include "tests/unit/attach/madebooks.h"

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
	raddr_t link[2], next, previous, bins, more[40];
};

struct cache {
	raddr_t slow;
	struct bin bin[CACHE_BINS];
};

/* A bin of a cache before 5.3. Such a cache has bins of small classes, other words, then ONE_LARGE
 * bins of large classes. */
struct size {
	int32_t low_water, count;
	uint64_t requests;
	raddr_t end;
};

#define ONE_LARGE 64u
#define ONE_BYTES ((EMAP_CLASSES_SMALL + ONE_LARGE) * sizeof(struct size) + 15 * sizeof(uint64_t))

/* The number of words between small and large bins, and the first of them that links the cache into
 * the ring of all caches: in 5.2, and in 5.1. */
static const struct between {
	unsigned words, ring;
} betweens[] = {{15, 5}, {12, 2}};

static _Thread_local struct {
	struct slow slow;
	struct cache cache;
	uint64_t one[ONE_BYTES / sizeof(uint64_t)];
} own;

static const struct emap_shape *shape;
static uint8_t *variables; /* the root is among them */
static raddr_t *root;
static uint8_t *pool; /* where blocks lie */
static size_t pool_used;
static struct edata *edata;
static size_t edata_count;
static raddr_t nodes; /* room for NODES nodes of any level, 3 MiB each */
static size_t nodes_used;

/* Returns the entry of the leaf for an address, and makes the nodes that lead to the leaf. */
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
	} else if (shape->is_old) {
		uint32_t more[2] = {class, slab};
		memcpy(entry + 8, more, sizeof(more));
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
	*now = (struct edata){.bits = 3u | (uint64_t)slab << 12 | 1u << 13 |
				      (uint64_t)state << shape->state_shift |
				      (uint64_t) class << shape->class_shift |
				      (uint64_t)free << shape->free_shift,
		.addr = addr,
		.size = pages * PAGE | 5};
	for (unsigned i = 0; i < pages; i++)
		if (slab || i == 0 || i == pages - 1)
			name(addr + i * PAGE, now, class, slab);
	return now;
}

/* Bits of the bitmap beyond a slab's last block may have any value. */
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

/* A large block. Its extent has `more` pages beyond the block's; if that is not 0, the block begins
 * at an offset. */
static struct edata *large(unsigned class, unsigned more)
{
	unsigned pages = (unsigned)(emap_class_bytes(class) / PAGE);
	struct edata *now = extent(ACTIVE, class, false, pages + more, 0);
	now->addr += more ? 640 : 0;
	return now;
}

/* Makes extents of all kinds; `more` as in large(). Returns the bytes that are handed out. */
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
	/* An extent that another thread is about to use. */
	extent(ACTIVE, EMAP_CLASSES, false, 2, 0);
	return (512 - 100) * 8 + (256 - 11) * 48 + 128 * 160 + 14336 + 16384 + emap_class_bytes(41);
}

/* Makes a cache as of 5.3, alone in its ring. Bin i has `each` + i % 3 blocks, or none if `each` is
 * 0. Returns the bytes of these blocks. */
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

/* As cache_fill, for a cache of a version before 5.3. */
static uint64_t one_fill(uint64_t *one, const struct between *between, unsigned each)
{
	raddr_t stack = at(map(CACHE_BINS * SLOTS * 8 + 16)) + 8;
	struct size *small = (void *)one;
	uint64_t *middle = (void *)&small[EMAP_CLASSES_SMALL];
	struct size *large = (void *)&middle[between->words];
	uint64_t *ring = &middle[between->ring], bytes = 0;
	memset(one, 0, ONE_BYTES);
	for (unsigned i = 0; i < CACHE_BINS; i++) {
		struct size *now =
			i < EMAP_CLASSES_SMALL ? &small[i] : &large[i - EMAP_CLASSES_SMALL];
		unsigned count = each ? each + i % 3 : 0;
		stack += SLOTS * 8;
		*now = (struct size){
			.low_water = -1, .count = (int32_t)count, .requests = 7, .end = stack};
		bytes += count * emap_class_bytes(i);
	}
	ring[0] = ring[1] = at(ring);
	ring[2] = at(small);
	ring[3] = at(large);
	return bytes;
}

static inline uint64_t *ring_of(uint64_t *one, const struct between *between)
{
	struct size *small = (void *)one;
	uint64_t *middle = (void *)&small[EMAP_CLASSES_SMALL];
	return &middle[between->ring];
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
	edata = pointer(at(map((EDATAS + 1) * sizeof(*edata))) + shape->align % 128);
	nodes = at(map(NODES * 3 * MIB));
	pool_used = edata_count = nodes_used = 0;
	(void)cache_fill(&own.cache, &own.slow, 0);
	(void)one_fill(own.one, &betweens[0], 0);
	module = (struct module){.path = path, .segment_count = 1};
	module.segment[0] = (struct module_segment){
		.vaddr = at(variables), .memsz = VARIABLES, .flags = PF_R | PF_W};
}

static void setup(void)
{
	setup_as(0);
}

static void check_exact(uint64_t held_bytes)
{
	struct heap_account account = check_held(held_bytes);
	ck_assert_uint_eq(account.arenas, 1);
	ck_assert_uint_eq(account.header_bytes, 0);
}
