/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/views/rss.h"

/*
 * Bounds of harmless growth. Allocators keep freed memory, so the peak counts, not the end. Size
 * classes and fragmentation take up to half as much again: jemalloc's classes are at most 25 %
 * apart, glibc's holes are bounded by what was live in them. A small block takes a header and is
 * rounded up to at least 32 bytes. OWN_BYTES and OWN_THREAD_BYTES are heaptap's own memory in the
 * process (attach/LIMITS.md, Resources).
 */
#define BLOCK_BYTES	 32u
#define OWN_BYTES	 (32u << 20)
#define OWN_THREAD_BYTES (256u << 10)
/* Growth is suspicious if it exceeds GROWTH_BYTES and more than 1/GROWTH_SHARE of it is
 * unexplained. */
#define GROWTH_BYTES (16 << 20)
#define GROWTH_SHARE 10u

static int64_t difference(uint64_t a, uint64_t b)
{
	uint64_t distance = a > b ? a - b : b - a;
	int64_t bounded = distance > INT64_MAX ? INT64_MAX : (int64_t)distance;
	return a > b ? bounded : -bounded;
}

/* A trace may claim any sizes: clamps the sum to UINT64_MAX. */
static uint64_t plus(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static int64_t sum(int64_t a, int64_t b)
{
	int64_t ret;
	if (__builtin_add_overflow(a, b, &ret))
		return a < 0 ? INT64_MIN : INT64_MAX;
	return ret;
}

static int64_t less(int64_t a, int64_t b)
{
	return sum(a, b == INT64_MIN ? INT64_MAX : -b);
}

static int64_t growth_of(const struct model_memory *memory, enum memory_kind kind)
{
	return difference(memory->last.number[kind], memory->first.number[kind]);
}

/* Whether a kind that is read only at the window's ends was read at both. */
static bool is_at_both_ends(const struct model_memory *memory, enum memory_kind kind)
{
	return memory->count[kind] >= 2;
}

static uint64_t free_of(uint64_t system_bytes, uint64_t held_bytes)
{
	return system_bytes > held_bytes ? system_bytes - held_bytes : 0;
}

/* Bytes of glibc's free chunks in no resident page: returned to the kernel, or never touched. */
static uint64_t not_resident(const struct memory *memory)
{
	if (!memory->is_known[MEMORY_GLIBC_FREE_RESIDENT])
		return 0;
	return free_of(plus(memory->number[MEMORY_GLIBC_TOP], memory->number[MEMORY_GLIBC_BINS]),
		memory->number[MEMORY_GLIBC_FREE_RESIDENT]);
}

static void take_books(
	struct rss_parts *parts, const struct heap *heap, const struct model_memory *memory)
{
	uint64_t start = free_of(heap->system_bytes, heap->start_held_bytes);
	uint64_t end = free_of(heap->end_system_bytes, heap->end_bytes);
	bool exact = is_at_both_ends(memory, MEMORY_GLIBC_FREE_RESIDENT);
	parts->heap_known = parts->free_known = true;
	/* Growth since the window began; the first reading of the counters is later. */
	parts->heap_bytes = difference(heap->end_bytes, heap->start_bytes);
	parts->free_end_bytes = end;
	if (exact) {
		start = free_of(start, not_resident(&memory->first));
		end = free_of(end, not_resident(&memory->last));
	}
	parts->free_bytes = difference(end, start);
	uint64_t anonymous = memory->last.number[MEMORY_ANONYMOUS];
	parts->free_resident_bytes = end < anonymous ? end : anonymous;
	parts->free_resident_exact = exact;
}

static struct rss_parts parts_of(const struct analysis *analysis, int64_t explained_bytes)
{
	const struct model_memory *memory = &analysis->model.memory;
	const struct heap *heap = &analysis->heap;
	struct rss_parts parts = {.known = memory->count[MEMORY_ANONYMOUS] &&
					   memory->count[MEMORY_FILE] &&
					   memory->count[MEMORY_SHARED]};
	if (!parts.known)
		return parts;
	parts.anonymous_bytes = growth_of(memory, MEMORY_ANONYMOUS);
	parts.file_bytes = growth_of(memory, MEMORY_FILE);
	parts.shared_bytes = growth_of(memory, MEMORY_SHARED);
	parts.own_bytes = memory->last.number[MEMORY_HEAPTAP];
	parts.swapped_bytes = growth_of(memory, MEMORY_SWAP);
	if (heap->growth_known) {
		take_books(&parts, heap, memory);
	} else if (model_is_exact(&analysis->model)) {
		parts.heap_known = true;
		parts.heap_bytes = explained_bytes;
	}
	parts.other_bytes = less(sum(parts.anonymous_bytes, parts.swapped_bytes),
		sum(parts.heap_bytes, parts.free_bytes));
	return parts;
}

/* Unexplained growth: by the allocators' counters; if these are unknown, the growth beyond the most
 * that the window's blocks can have added. */
static uint64_t unexplained_of(const struct rss_growth *rss, uint64_t mapped_bytes)
{
	const struct rss_parts *parts = &rss->parts;
	bool has_books = parts->known && parts->free_known;
	int64_t growth = parts->known ? parts->anonymous_bytes : rss->growth_bytes;
	int64_t rest = has_books ? parts->other_bytes : growth;
	uint64_t explicable = has_books ? mapped_bytes : rss->explicable_bytes;
	return rest > 0 && (uint64_t)rest > explicable ? (uint64_t)rest - explicable : 0;
}

struct rss_growth rss_growth_of(const struct analysis *analysis)
{
	const struct model *model = &analysis->model;
	const struct cube *cube = analysis_whole(analysis);
	const struct model_memory *memory = &model->memory;
	uint64_t own_bytes = OWN_BYTES + OWN_THREAD_BYTES * (uint64_t)model->threads.tids;
	uint64_t block_bytes = plus(cube->peak_bytes, cube->peak_bytes / 2);
	block_bytes = plus(block_bytes, BLOCK_BYTES * cube->peak_blocks);
	/* An upper bound if mappings are recorded, because some of them hold blocks. */
	uint64_t mapped_bytes = mappings_accessible(&analysis->mappings.live);
	struct rss_growth ret = {
		.known = memory->count[MEMORY_RSS] != 0,
		.first_bytes = memory->first.number[MEMORY_RSS],
		.last_bytes = memory->last.number[MEMORY_RSS],
		.growth_bytes = growth_of(memory, MEMORY_RSS),
		.explained_bytes = difference(cube_live_bytes(cube), cube->before_freed_bytes),
		.explicable_bytes = plus(plus(block_bytes, mapped_bytes), own_bytes),
	};
	ret.parts = parts_of(analysis, ret.explained_bytes);
	ret.unexplained_bytes = unexplained_of(&ret, analysis->mappings.live.anonymous);
	/* Without kinds of pages, unexplained_bytes is already the part beyond the upper bound, so
	 * any of it counts. */
	ret.is_unexplained =
		ret.parts.known
			? ret.growth_bytes > GROWTH_BYTES &&
				  ret.unexplained_bytes > (uint64_t)ret.growth_bytes / GROWTH_SHARE
			: ret.unexplained_bytes != 0;
	/* The allocators' counters include blocks allocated in a pause; the events do not. */
	if (model->pause_count && !(ret.parts.known && ret.parts.free_known))
		ret.is_unexplained = false;
	return ret;
}
