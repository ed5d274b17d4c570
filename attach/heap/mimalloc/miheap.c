/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/heap/mimalloc/miheap.h"

#include <string.h>

#include "attach/heap/view/variables.h"

#define QUEUES	    (MIHEAP_SIZES + 2)
#define MEDIUM_OLD  (128u << 10) /* larger blocks have a page of their own */
#define MEDIUM	    (64u << 10)
#define BACKING	    16u /* word in the object that a heap points at: its thread's first heap */
#define STATE_WORDS 386u

/* Layout in memory. */
struct queue {
	raddr_t first, last;
	uint64_t block_bytes;
};

/* Offsets within a heap, in bytes. The pointer to the other object comes first. */
static const struct shape {
	unsigned builds;
	uint16_t bytes, queue, delayed, thread, cookie, pages;
} shapes[] = {
	{1u << MIBUILD_2_0_9 | 1u << MIBUILD_2_1_2, 3048, 1040, 2840, 2848, 2864, 3024},
	{1u << MIBUILD_2_1_4 | 1u << MIBUILD_2_1_8, 3064, 1264, 8, 16, 32, 192},
	{1u << MIBUILD_2_2_2, 3080, 1280, 8, 16, 32, 192},
	{1u << MIBUILD_2_3_0, 3088, 1288, 8, 16, 32, 192},
};

uint64_t mibuild_medium_max(enum mibuild build)
{
	return build < MIBUILD_2_2_2 ? MEDIUM_OLD : MEDIUM;
}

/* 8, 8, 16, 24, ..., 64, then four sizes for each doubling. */
uint64_t miheap_block_bytes(size_t index)
{
	if (index <= 8)
		return 8 * (index ? index : 1);
	uint64_t base = 64ull << (index - 9) / 4;
	return base + ((index - 9) % 4 + 1) * (base / 4);
}

/* The two queues behind the queues with a block size have a size beyond that of any page with
 * several blocks. */
static uint64_t queue_bytes(const struct shape *shape, size_t index)
{
	if (index < MIHEAP_SIZES)
		return miheap_block_bytes(index);
	uint64_t medium = shape->builds >> MIBUILD_2_2_2 ? MEDIUM : MEDIUM_OLD;
	return medium + 8 * (index - MIHEAP_SIZES + 1);
}

static bool is_heap(const struct shape *shape, const uint64_t *state)
{
	struct queue queue[QUEUES];
	memcpy(queue, &state[shape->queue / 8], sizeof(queue));
	for (size_t i = 0; i < QUEUES; i++)
		if (queue[i].block_bytes != queue_bytes(shape, i) ||
			!queue[i].first != !queue[i].last)
			return false;
	raddr_t thread = state[shape->thread / 8];
	return state[0] && thread && thread % 8 == 0 && state[shape->cookie / 8] &&
	       state[shape->delayed / 8] % 8 == 0;
}

static bool read_shape(struct view *view, raddr_t addr, bool is_variable, const struct shape *shape,
	struct miheap *ret)
{
	uint64_t state[STATE_WORDS];
	bool got = is_variable ? view_read_data(view, addr, state, shape->bytes) == shape->bytes
			       : view_read(view, addr, state, shape->bytes);
	if (!got || !is_heap(shape, state))
		return false;
	*ret = (struct miheap){.addr = addr,
		.thread = state[shape->thread / 8],
		.cookie = state[shape->cookie / 8],
		.pages = state[shape->pages / 8],
		.delayed = state[shape->delayed / 8],
		.builds = shape->builds};
	return true;
}

bool miheap_read(
	struct view *view, raddr_t addr, bool is_variable, unsigned builds, struct miheap *ret)
{
	for (size_t i = 0; i < HT_ARRAY_SIZE(shapes); i++)
		if ((shapes[i].builds & builds) &&
			read_shape(view, addr, is_variable, &shapes[i], ret))
			return true;
	return false;
}

struct search {
	struct view *view;
	raddr_t lo, hi; /* of the variables */
	struct miheap *found;
	size_t count;
};

/* Is this a first thread's heap? Then the object that it points at is a variable, too, and points
 * back. */
static bool is_first(struct search *search, raddr_t addr)
{
	raddr_t own, backing;
	struct view *view = search->view;
	return view_read_data(view, addr, &own, sizeof(own)) == sizeof(own) && own >= search->lo &&
	       own < search->hi &&
	       view_read_data(view, own + BACKING, &backing, sizeof(backing)) == sizeof(backing) &&
	       backing == addr;
}

/* Is there a heap whose queues begin at `addr`? */
static void search_queues(struct search *search, raddr_t addr)
{
	for (size_t i = 0; i < HT_ARRAY_SIZE(shapes); i++) {
		const struct shape *shape = &shapes[i];
		struct miheap heap;
		raddr_t at = addr - shape->queue;
		if (at > addr || at < search->lo || search->hi - at < shape->bytes ||
			!read_shape(search->view, at, true, shape, &heap) || !is_first(search, at))
			continue;
		*search->found = heap;
		search->count++;
	}
}

static struct ht_err *search_piece(void *context, raddr_t addr, const uint8_t *data, size_t bytes)
{
	struct search *search = context;
	for (size_t i = 0; i + sizeof(uint64_t) <= bytes && !search->view->spent; i += 8) {
		uint64_t size[2] = {0, miheap_block_bytes(1)};
		bool has_next = i + sizeof(struct queue) + sizeof(*size) <= bytes;
		memcpy(&size[0], data + i, sizeof(*size));
		if (size[0] != miheap_block_bytes(0))
			continue;
		if (has_next)
			memcpy(&size[1], data + i + sizeof(struct queue), sizeof(*size));
		if (size[1] == miheap_block_bytes(1))
			search_queues(search, addr + i - offsetof(struct queue, block_bytes));
	}
	return NULL;
}

struct ht_err *miheap_find(
	struct view *view, const struct module *module, struct miheap *ret, size_t *ret_count)
{
	struct search search = {.view = view, .found = ret};
	*ret_count = 0;
	if (!variables_span(module, &search.lo, &search.hi))
		return NULL;
	struct ht_err *err = variables_each(view, search.lo, search.hi, search_piece, &search);
	*ret_count = search.count;
	return err;
}
