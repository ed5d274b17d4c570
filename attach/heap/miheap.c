/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/heap/miheap.h"

#include <string.h>

#include "attach/heap/variables.h"

#define QUEUES	    (MIHEAP_SIZES + 2)
#define MEDIUM_MAX  (128u << 10) /* larger blocks have a page for themselves */
#define CHUNK_BYTES 65536u	 /* of the variables, in one read */
#define BACKING	    16u		 /* in what a heap points at: the first heap of its thread */

/* As they lie in memory. */
struct queue {
	raddr_t first, last;
	uint64_t block_bytes;
};

struct state {
	raddr_t own;
	raddr_t direct[129]; /* pages, by words of the block */
	struct queue queue[QUEUES];
	raddr_t delayed, thread;
	uint64_t arena, cookie, keys[2];
	uint32_t random[34];
	uint64_t pages, retired_min, retired_max;
};

_Static_assert(offsetof(struct state, pages) == 3024, "as in mimalloc");

#define FIRST_SIZE offsetof(struct state, queue[0].block_bytes)

/* 8, 8, 16, 24, ..., 64, and from there on four sizes each time it doubles. */
uint64_t miheap_block_bytes(size_t index)
{
	if (index <= 8)
		return 8 * (index ? index : 1);
	if (index >= MIHEAP_SIZES)
		return MEDIUM_MAX + 8 * (index - MIHEAP_SIZES + 1);
	uint64_t base = 64ull << (index - 9) / 4;
	return base + ((index - 9) % 4 + 1) * (base / 4);
}

static bool is_heap(const struct state *state)
{
	for (size_t i = 0; i < QUEUES; i++) {
		const struct queue *queue = &state->queue[i];
		if (queue->block_bytes != miheap_block_bytes(i) || !queue->first != !queue->last)
			return false;
	}
	return state->own && state->thread && state->thread % 8 == 0 && state->cookie &&
	       state->delayed % 8 == 0;
}

bool miheap_read(struct view *view, raddr_t addr, bool is_variable, struct miheap *ret)
{
	struct state state;
	bool got = is_variable ? view_read_data(view, addr, &state, sizeof(state)) == sizeof(state)
			       : view_read(view, addr, &state, sizeof(state));
	if (!got || !is_heap(&state))
		return false;
	*ret = (struct miheap){.addr = addr,
		.thread = state.thread,
		.cookie = state.cookie,
		.pages = state.pages,
		.delayed = state.delayed};
	return true;
}

struct search {
	struct view *view;
	raddr_t lo, hi; /* of the variables */
	struct miheap *found;
	size_t count;
	uint8_t data[CHUNK_BYTES];
};

/* What it points at is a variable, too, and points back. */
static bool is_first(struct search *search, raddr_t addr)
{
	raddr_t own, backing;
	struct view *view = search->view;
	return view_read_data(view, addr, &own, sizeof(own)) == sizeof(own) && own >= search->lo &&
	       own < search->hi &&
	       view_read_data(view, own + BACKING, &backing, sizeof(backing)) == sizeof(backing) &&
	       backing == addr;
}

static void search_chunk(struct search *search, raddr_t addr, size_t bytes)
{
	struct miheap heap;
	for (size_t i = 0; i + sizeof(uint64_t) <= bytes && !search->view->spent; i += 8) {
		uint64_t size[2] = {0, miheap_block_bytes(1)};
		bool has_next = i + sizeof(struct queue) + sizeof(*size) <= bytes;
		memcpy(&size[0], search->data + i, sizeof(*size));
		if (size[0] != miheap_block_bytes(0))
			continue;
		if (has_next)
			memcpy(&size[1], search->data + i + sizeof(struct queue), sizeof(*size));
		raddr_t at = addr + i - FIRST_SIZE;
		if (size[1] != miheap_block_bytes(1) || at < search->lo || at > addr + i ||
			search->hi - at < sizeof(struct state) ||
			!miheap_read(search->view, at, true, &heap) || !is_first(search, at))
			continue;
		*search->found = heap;
		search->count++;
	}
}

void miheap_find(
	struct view *view, const struct module *module, struct miheap *ret, size_t *ret_count)
{
	struct search search = {.view = view, .found = ret};
	raddr_t end;
	*ret_count = 0;
	if (!variables_span(module, &search.lo, &search.hi))
		return;
	view_forget(view);
	for (raddr_t at = search.lo; view_touched(view, &at, search.hi, &end);) {
		size_t bytes = end - at < CHUNK_BYTES ? end - at : CHUNK_BYTES;
		search_chunk(&search, at, view_read_data(view, at, search.data, bytes));
		at += bytes;
	}
	*ret_count = search.count;
}
