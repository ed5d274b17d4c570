/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/heap/glibc/arena.h"

#include <string.h>

#define CHUNK_ALIGN  16u
#define BYTES_MAX    (1ull << 47) /* size of a program's address space */
#define MUTEX_MAX    2
#define FLAGS_MAX    7
#define READS_MAX    16u
#define LINKS_OFFSET 16u /* from the start of a chunk to its list pointers */

static const unsigned heap_info_bytes[] = {0x30, 0x20}; /* since 2.35; before */

_Static_assert(offsetof(struct arena_state, top) == 0x60, "as in glibc");
_Static_assert(offsetof(struct arena_state, next) == 0x870, "as in glibc");
_Static_assert(sizeof(struct arena_state) == 0x898, "as in glibc");

raddr_t arena_bin(raddr_t arena, size_t index)
{
	return arena + offsetof(struct arena_state, bin) + index * 2 * sizeof(raddr_t) -
	       LINKS_OFFSET;
}

static bool is_chunk(const struct view *view, raddr_t addr)
{
	return addr && addr % CHUNK_ALIGN == 0 && view_may_hold(view, addr);
}

/* An empty bin, or one with a first and a last chunk. */
static bool is_bin(const struct view *view, const raddr_t bin[2], raddr_t self)
{
	if (bin[0] == self || bin[1] == self)
		return bin[0] == bin[1];
	return is_chunk(view, bin[0]) && is_chunk(view, bin[1]);
}

static bool is_arena(const struct view *view, raddr_t addr, const struct arena_state *state)
{
	if (state->mutex < 0 || state->mutex > MUTEX_MAX || state->flags < 0 ||
		state->flags > FLAGS_MAX || state->system_bytes > state->system_max_bytes ||
		state->system_max_bytes > BYTES_MAX || !state->next)
		return false;
	/* Before the first block, the top is the bin of unsorted chunks. */
	if (state->top != arena_bin(addr, 0) && !is_chunk(view, state->top))
		return false;
	/* No chunk is large enough for the last bin, so that bin is empty. */
	if (state->bin[ARENA_BINS - 1][0] != arena_bin(addr, ARENA_BINS - 1))
		return false;
	for (size_t i = 0; i < ARENA_BINS; i++)
		if (!is_bin(view, state->bin[i], arena_bin(addr, i)))
			return false;
	return true;
}

/* A thread that uses the arena changes both ends of a list one after the other, so a copy may have
 * one new and one old end. */
bool arena_read(struct view *view, raddr_t addr, struct arena_state *ret)
{
	for (unsigned i = 0; i < READS_MAX; i++)
		if (view_read_data(view, addr, ret, sizeof(*ret)) != sizeof(*ret))
			return false;
		else if (is_arena(view, addr, ret))
			return true;
	return false;
}

/* An arena other than the first follows the header of a heap that names it. */
static bool is_headed(struct view *view, raddr_t addr)
{
	for (size_t i = 0; i < HT_ARRAY_SIZE(heap_info_bytes); i++) {
		raddr_t owner;
		if (view_read(view, addr - heap_info_bytes[i], &owner, sizeof(owner)) &&
			owner == addr)
			return true;
	}
	return false;
}

static bool ring_read(struct view *view, raddr_t first, const struct arena_state *state,
	raddr_t *ret_ring, size_t *ret_count)
{
	struct arena_state other;
	ret_ring[0] = first;
	*ret_count = 1;
	for (raddr_t at = state->next; at != first; at = other.next) {
		if (*ret_count == ARENAS_MAX || !view_holds(view, at) || !is_headed(view, at) ||
			!arena_read(view, at, &other))
			return false;
		ret_ring[(*ret_count)++] = at;
	}
	return true;
}

raddr_t arena_find(struct view *view, const uint8_t *data, size_t bytes, raddr_t addr,
	raddr_t *ret_ring, size_t *ret_count)
{
	const size_t last =
		offsetof(struct arena_state, bin) + (ARENA_BINS - 1) * 2 * sizeof(raddr_t);
	raddr_t found = 0;
	*ret_count = 0;
	for (size_t at = 0; at + sizeof(struct arena_state) <= bytes; at += sizeof(raddr_t)) {
		struct arena_state state;
		raddr_t word;
		memcpy(&word, data + at + last, sizeof(word));
		if (word != arena_bin(addr + at, ARENA_BINS - 1))
			continue;
		*ret_count = *ret_count ? *ret_count : 1;
		memcpy(&state, data + at, sizeof(state));
		if ((!is_arena(view, addr + at, &state) && !arena_read(view, addr + at, &state)) ||
			!ring_read(view, addr + at, &state, ret_ring, ret_count))
			continue;
		if (found)
			return 0;
		found = addr + at;
	}
	return found;
}

/* malloc initialises the list heads at its first call. Until then only `next`, the arena itself,
 * and the number of threads, 1, are not 0. */
static bool is_unused(const uint8_t *data, raddr_t addr)
{
	const struct arena_state unused = {.next = addr, .attached_threads = 1};
	return memcmp(data, &unused, sizeof(unused)) == 0;
}

bool arena_is_unused(const uint8_t *data, size_t bytes, raddr_t addr)
{
	size_t found = 0;
	for (size_t at = 0; at + sizeof(struct arena_state) <= bytes; at += sizeof(raddr_t)) {
		raddr_t next;
		memcpy(&next, data + at + offsetof(struct arena_state, next), sizeof(next));
		found += next == addr + at && is_unused(data + at, addr + at);
	}
	return found == 1;
}
