/* SPDX-License-Identifier: Apache-2.0
 *
 * A made-up mimalloc in this process, laid out as 2.0.9 has it: heaps, segments, pages, lists.
 */
#pragma once

#include <elf.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "attach/elf/modules.h"
#include "attach/process/proc_open.h"
#include "tests/support/ht_check.h"

#define BOOKS_READER mimalloc_reader
#include "tests/unit/attach/madebooks.h"

#define PAGE	  4096u
#define MIB	  (1024u * 1024u)
#define SLICE	  65536u
#define SLICES	  512u
#define QUEUES	  75u
#define VARIABLES (2 * MIB)
#define SEGMENTS  4u

struct queue {
	raddr_t first, last;
	uint64_t block_bytes;
};

struct own_heap {
	raddr_t own, direct[129];
	struct queue queue[QUEUES];
	raddr_t delayed, thread;
	uint64_t arena, cookie, more[19];
	uint64_t pages, last[4];
};

_Static_assert(sizeof(struct own_heap) == 3064, "as in mimalloc");

struct slice {
	uint32_t count, offset;
	uint8_t committed, more;
	uint16_t capacity, reserved;
	uint8_t flags, retired;
	raddr_t free;
	uint32_t used, block_bytes;
	raddr_t local_free, thread_free, heap, next, previous;
	uint64_t padding;
};

struct segment {
	uint64_t memory[6], decommit[8], commit[8];
	raddr_t abandoned_next, next;
	uint64_t abandoned, visits, used, cookie, slices, info_slices, huge, entries;
	raddr_t thread;
	struct slice slice[SLICES + 1];
};

_Static_assert(sizeof(struct segment) == 41304, "as in mimalloc");

static _Thread_local volatile raddr_t default_heap;

static uint8_t *variables;
static struct own_heap *first, *second; /* among the module's variables; of another thread */
static uint64_t cookie;
static struct segment *segment[SEGMENTS];
static unsigned next_slice[SEGMENTS];
static unsigned rule; /* 0 or 1: where the first block of a page lies (start_of), by version */

static inline uint64_t size_of(unsigned queue)
{
	static const uint8_t quarter[] = {5, 6, 7, 8};
	if (queue <= 8)
		return queue ? queue * 8 : 8;
	return queue > 72 ? 131072 + (queue - 72) * 8
			  : (16ull << (queue - 9) / 4) * quarter[(queue - 9) % 4];
}

static inline void heap_init(struct own_heap *heap, raddr_t own, raddr_t thread)
{
	*heap = (struct own_heap){.own = own, .thread = thread, .cookie = cookie};
	for (unsigned i = 0; i < QUEUES; i++)
		heap->queue[i].block_bytes = size_of(i);
}

static inline void segment_init(unsigned index, raddr_t thread)
{
	raddr_t any = at(map(64 * MIB)) + 32 * MIB - 1;
	struct segment *now = (void *)(uintptr_t)(any & ~(raddr_t)(32 * MIB - 1));
	*now = (struct segment){.cookie = at(now) ^ cookie,
		.slices = SLICES,
		.info_slices = 1,
		.entries = SLICES,
		.thread = thread};
	memset(now->commit, 0xff, sizeof(now->commit));
	now->slice[0] = (struct slice){.count = 1, .block_bytes = SLICE};
	now->slice[1] = (struct slice){.count = SLICES - 1};
	now->slice[SLICES - 1].offset = (SLICES - 2) * sizeof(struct slice);
	segment[index] = now;
	next_slice[index] = 1;
}

static inline uint64_t start_of(uint64_t bytes)
{
	if (!rule)
		return bytes <= 1024 ? 384 : 0;
	return bytes <= 64 ? 3 * bytes : bytes <= 512 ? bytes : 0;
}

static inline raddr_t block_of(const struct slice *slice, unsigned index)
{
	raddr_t own = at(slice) & ~(raddr_t)(32 * MIB - 1);
	raddr_t place = (at(slice) - own - offsetof(struct segment, slice)) / sizeof(*slice);
	return own + place * SLICE + start_of(slice->block_bytes) +
	       (raddr_t)index * slice->block_bytes;
}

/* Makes a page with `used` blocks in use; the slices behind it in its segment stay free. */
static inline struct slice *page(
	unsigned index, struct own_heap *heap, uint64_t bytes, unsigned used)
{
	struct segment *own = segment[index];
	unsigned count = bytes <= 16384	   ? 1
			 : bytes <= 131072 ? 8
					   : (unsigned)((bytes + SLICE - 1) / SLICE);
	struct slice *now = &own->slice[next_slice[index]];
	unsigned end = next_slice[index] + count;
	ck_assert_uint_lt(end, SLICES);
	uint64_t reserved = (count * (uint64_t)SLICE - start_of(bytes)) / bytes;
	*now = (struct slice){.count = count,
		.capacity = (uint16_t)reserved,
		.reserved = (uint16_t)reserved,
		.used = used,
		.block_bytes = (uint32_t)bytes,
		.heap = heap ? at(heap) : 0};
	ck_assert_uint_le(used, reserved);
	for (unsigned i = 1; i < count; i++)
		now[i] = (struct slice){
			.offset = i * (uint32_t)sizeof(struct slice), .block_bytes = 1};
	own->slice[end] = (struct slice){.count = SLICES - end};
	if (end < SLICES - 1)
		own->slice[SLICES - 1].offset = (SLICES - 1 - end) * sizeof(struct slice);
	next_slice[index] = end;
	own->used++;
	own->abandoned += !heap;
	if (heap)
		heap->pages++;
	return now;
}

/* Puts the blocks [from, to) into a list, as if another thread had freed them. */
static inline void list_fill(
	const struct slice *slice, unsigned from, unsigned to, raddr_t *ret_head)
{
	for (unsigned i = from; i < to; i++) {
		raddr_t block = block_of(slice, i);
		*(raddr_t *)(uintptr_t)block = *ret_head & ~3ull;
		*ret_head = block;
	}
}

static inline void setup(void)
{
	static bool is_open;
	static char path[] = "/lib/libmimalloc.so.2";
	if (!is_open) {
		ck_no_err(proc_open(getpid(), &self));
		ck_no_err(proc_open_mem(&self));
	}
	is_open = true;
	/* A new cookie, so that segments of earlier tests are not taken for this test's. */
	cookie = (cookie + 1) * 6364136223846793005ull;
	rule = 0;
	variables = map(VARIABLES);
	first = (void *)(variables + 20 * PAGE - 1000);
	second = map(PAGE);
	raddr_t *own = (void *)(variables + 5 * PAGE);
	own[2] = own[3] = at(first);
	heap_init(first, at(own), at((void *)pthread_self()));
	heap_init(second, at(own), at(second));
	default_heap = at(first);
	segment_init(0, first->thread);
	segment_init(1, second->thread);
	segment_init(2, 0);
	module = (struct module){.path = path, .segment_count = 1};
	module.segment[0] = (struct module_segment){
		.vaddr = at(variables), .memsz = VARIABLES, .flags = PF_R | PF_W};
}

/* Makes pages of all kinds, of both threads and of one that has ended. Returns the bytes that are
 * handed out. */
static inline uint64_t fill(void)
{
	uint64_t held = 0;
	for (unsigned i = 1; i <= 72; i++) {
		unsigned used = i <= 53 ? 3 : 2;
		if (size_of(i) > 131072)
			break;
		page(0, first, size_of(i), used);
		held += used * size_of(i);
	}
	page(1, second, 3 * SLICE, 1);
	page(1, second, 48, 0);
	page(2, NULL, 16384, 4);
	return held + 3 * SLICE + 4 * 16384;
}

/* Makes a segment of `slices` slices for one block alone. Returns the block's bytes. */
static inline uint64_t huge(uint64_t slices)
{
	segment_init(3, first->thread);
	struct segment *own = segment[3];
	uint64_t bytes = (slices - 1) * SLICE;
	own->slices = slices;
	own->entries = slices < SLICES ? slices : SLICES;
	own->huge = 1;
	own->used = 1;
	own->slice[1] = (struct slice){.count = (uint32_t)(slices - 1),
		.capacity = 1,
		.reserved = 1,
		.used = 1,
		.block_bytes = bytes < 1u << 31 ? (uint32_t)bytes : 1u << 31,
		.heap = at(first)};
	first->pages++;
	return bytes;
}
