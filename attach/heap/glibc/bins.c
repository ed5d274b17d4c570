/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/heap/glibc/bins.h"

#include <stdlib.h>

#include "attach/heap/view/account.h"
#include "format/array.h"

#define CHUNK_ALIGN	16u
#define CHUNK_BYTES_MIN 32u
#define SIZE_FLAGS	7u
#define SIZE_MAPPED	2u
#define SMALL_BINS	63u   /* including the bin of unsorted chunks */
#define SMALL_BYTES_MAX 1024u /* each bin of smaller chunks has one size */
#define COST_AT_END	(4 * VIEW_READ_COST)
#define TRIES		4u /* for a list that changes during the walk */

struct chunk {
	uint64_t previous_bytes, size;
	raddr_t forward, backward;
};

static uint64_t chunk_bytes(uint64_t size)
{
	return size & ~(uint64_t)SIZE_FLAGS;
}

static struct ht_err *add(struct bins *bins, raddr_t addr, uint64_t bytes)
{
	if (!ARRAY_HAS_ROOM(bins->chunk, bins->count, bins->capacity, 256))
		return ht_err_new(HT_ERR_NOMEM, "no memory for the free chunks of a heap");
	bins->chunk[bins->count++] = (struct bins_chunk){addr, bytes};
	return NULL;
}

/* Can a chunk of that size be in the bin with that index in arena_state? */
static bool is_at_home(size_t bin, uint64_t bytes)
{
	if (bin == 0)
		return true;
	return bin < SMALL_BINS ? bytes == (bin + 1) * CHUNK_ALIGN : bytes >= SMALL_BYTES_MAX;
}

static bool is_free_chunk(const struct chunk *chunk, size_t bin, uint64_t left_bytes)
{
	uint64_t bytes = chunk_bytes(chunk->size);
	return bytes >= CHUNK_BYTES_MIN && bytes % CHUNK_ALIGN == 0 && bytes <= left_bytes &&
	       !(chunk->size & SIZE_MAPPED) && is_at_home(bin, bytes);
}

static struct ht_err *bin_walk(
	struct view *view, raddr_t arena, struct bins *bins, size_t bin, bool *ret_whole)
{
	raddr_t self = arena_bin(arena, bin), before = self;
	uint64_t left_bytes = bins->state.system_bytes;
	struct chunk chunk;
	*ret_whole = false;
	/* This cannot loop: a chunk that is met a second time has another predecessor than its back
	 * pointer says. */
	for (raddr_t at = bins->state.bin[bin][0]; at != self; at = chunk.forward) {
		if (at % CHUNK_ALIGN || !view_read(view, at, &chunk, sizeof(chunk)) ||
			chunk.backward != before || !is_free_chunk(&chunk, bin, left_bytes))
			return NULL;
		HT_TRY(add(bins, at, chunk_bytes(chunk.size)));
		left_bytes -= chunk_bytes(chunk.size);
		before = at;
	}
	*ret_whole = before == bins->state.bin[bin][1];
	return NULL;
}

/* Since 2.32 the links of singly linked lists are xored with their own page number. */
static raddr_t link_read(const struct view *view, raddr_t at, raddr_t word)
{
	raddr_t turned = word ^ at >> 12;
	bool is_turned = !turned || (turned % CHUNK_ALIGN == 0 && view_may_hold(view, turned));
	return is_turned ? turned : word;
}

static struct ht_err *fastbin_walk(
	struct view *view, struct bins *bins, size_t index, bool *ret_whole)
{
	uint64_t bytes = (index + 2) * CHUNK_ALIGN, left_bytes = bins->state.system_bytes;
	struct chunk chunk;
	*ret_whole = false;
	for (raddr_t at = bins->state.fast[index]; at;
		at = link_read(view, at + offsetof(struct chunk, forward), chunk.forward)) {
		if (at % CHUNK_ALIGN ||
			!view_read(view, at, &chunk, offsetof(struct chunk, backward)) ||
			chunk_bytes(chunk.size) != bytes || bytes > left_bytes)
			return NULL;
		HT_TRY(add(bins, at, bytes));
		left_bytes -= bytes;
	}
	*ret_whole = true;
	return NULL;
}

static struct ht_err *list_walk(
	struct view *view, raddr_t arena, struct bins *bins, size_t list, bool *ret_whole)
{
	return list < ARENA_BINS ? bin_walk(view, arena, bins, list, ret_whole)
				 : fastbin_walk(view, bins, list - ARENA_BINS, ret_whole);
}

/* Walks all lists. A list that changes during the walk is walked again from its beginning. */
static struct ht_err *lists_walk(struct view *view, raddr_t arena, struct bins *bins)
{
	bins->whole = true;
	for (size_t list = 0; list < ARENA_BINS + ARENA_FASTBINS; list++) {
		size_t count = bins->count;
		bool whole = false;
		for (unsigned i = 0; i < TRIES && !whole && !view->spent; i++) {
			if (i && !arena_read(view, arena, &bins->state))
				break;
			if (i)
				view_forget(view);
			bins->count = count;
			HT_TRY(list_walk(view, arena, bins, list, &whole));
		}
		bins->whole &= whole;
	}
	return NULL;
}

static bool top_read(
	struct view *view, raddr_t arena, const struct arena_state *state, uint64_t *ret_bytes)
{
	struct chunk chunk = {0};
	*ret_bytes = 0;
	if (state->top == arena_bin(arena, 0))
		return true;
	if (!view_read(view, state->top, &chunk, offsetof(struct chunk, forward)))
		return false;
	*ret_bytes = chunk_bytes(chunk.size);
	return *ret_bytes % CHUNK_ALIGN == 0 && *ret_bytes <= state->system_bytes;
}

static int compare_chunks(const void *a, const void *b)
{
	const struct bins_chunk *left = a, *right = b;
	return (left->addr > right->addr) - (left->addr < right->addr);
}

/* Drops duplicates: a chunk that moved to another list during the walk, alone or merged with
 * neighbours, was met twice. */
static void chunks_settle(struct bins *bins)
{
	size_t kept = 0;
	if (bins->count)
		qsort(bins->chunk, bins->count, sizeof(*bins->chunk), compare_chunks);
	bins->free_bytes = bins->top_bytes;
	for (size_t i = 0; i < bins->count; i++) {
		const struct bins_chunk *before = kept ? &bins->chunk[kept - 1] : NULL;
		if (before && bins->chunk[i].addr < before->addr + before->bytes)
			continue;
		bins->free_bytes += bins->chunk[i].bytes;
		bins->chunk[kept++] = bins->chunk[i];
	}
	bins->count = kept;
}

struct ht_err *bins_walk(struct view *view, raddr_t arena, struct bins *ret)
{
	ret->count = 0;
	view_forget(view);
	ret->valid = arena_read(view, arena, &ret->state) && view->left >= COST_AT_END;
	if (!ret->valid)
		return NULL;
	view->left -= COST_AT_END;
	struct ht_err *err = lists_walk(view, arena, ret);
	view->left += COST_AT_END;
	if (err)
		return err;
	bool spent = view->spent;
	view->spent = false;
	view_forget(view);
	ret->valid = arena_read(view, arena, &ret->state) &&
		     top_read(view, arena, &ret->state, &ret->top_bytes);
	view->spent = spent;
	chunks_settle(ret);
	ret->valid &= ret->free_bytes <= ret->state.system_bytes;
	return NULL;
}

void bins_deinit(struct bins *bins)
{
	free(bins->chunk);
	*bins = (struct bins){0};
}

uint64_t bins_moved_bytes(const struct bins *before, const struct bins *now)
{
	uint64_t moved = account_distance(before->top_bytes, now->top_bytes) +
			 account_distance(before->state.system_bytes, now->state.system_bytes);
	for (size_t a = 0, b = 0; a < before->count || b < now->count;) {
		const struct bins_chunk *left = &before->chunk[a], *right = &now->chunk[b];
		if (b == now->count || (a < before->count && left->addr < right->addr)) {
			moved += left->bytes;
			a++;
		} else if (a == before->count || right->addr < left->addr) {
			moved += right->bytes;
			b++;
		} else {
			moved += account_distance(left->bytes, right->bytes);
			a++;
			b++;
		}
	}
	return moved;
}
