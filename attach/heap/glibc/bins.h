/* SPDX-License-Identifier: Apache-2.0
 *
 * The free chunks of one of glibc's arenas. The program changes the lists while they are walked:
 * every link of a doubly linked list is checked in both directions, and two walks that find the
 * same chunks prove that nothing moved.
 */
#pragma once

#include "attach/heap/glibc/arena.h"

struct bins_chunk {
	raddr_t addr;
	uint64_t bytes;
};

/* One walk. */
struct bins {
	struct arena_state state; /* as it was at the end of the walk */
	uint64_t top_bytes;
	struct bins_chunk *chunk; /* ascending by address, each once */
	size_t count, capacity;
	uint64_t free_bytes; /* of all chunks and the top */
	bool valid;	     /* the arena and its top were read, and are plausible */
	bool whole;	     /* each list was walked to its end */
};

/* `ret`: zero-initialised, or an earlier walk, which it replaces. Free with bins_deinit. */
HT_MUST_CHECK
struct ht_err *bins_walk(struct view *view, raddr_t arena, struct bins *ret);
void bins_deinit(struct bins *bins);
/* Bytes that are free in only one of two walks, plus the changes of the top's size and of the bytes
 * that the arena has from the system; 0: nothing has moved. */
uint64_t bins_moved_bytes(const struct bins *before, const struct bins *now);
