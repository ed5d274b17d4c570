/* SPDX-License-Identifier: Apache-2.0
 *
 * glibc's arenas (struct malloc_state since 2.27). The first is a variable of the C library without
 * an exported name; its list heads, which point at each other, identify it.
 */
#pragma once

#include "attach/heap/view/view.h"

#define ARENA_FASTBINS 10u
#define ARENA_BINS     127u
#define ARENAS_MAX     1024u

/* Layout in memory. */
struct arena_state {
	int32_t mutex, flags, have_fastchunks, padding;
	raddr_t fast[ARENA_FASTBINS];
	raddr_t top, last_remainder;
	raddr_t bin[ARENA_BINS][2]; /* first and last chunk; the first bin holds unsorted chunks */
	uint32_t binmap[4];
	raddr_t next, next_free;
	uint64_t attached_threads;
	uint64_t system_bytes, system_max_bytes;
};

/* The address at which the list of bin `index` begins and ends. */
raddr_t arena_bin(raddr_t arena, size_t index);
/* Reads the arena at `addr`; false unless every field is plausible. */
bool arena_read(struct view *view, raddr_t addr, struct arena_state *ret);
/* Finds the first arena in `data`, a copy of the variables at `addr`. Returns 0 if there is none or
 * several candidates; `*ret_count` is 0 then if no list head looks like an arena's. `ret_ring` gets
 * all arenas, the first one first; the caller provides room for ARENAS_MAX. */
raddr_t arena_find(struct view *view, const uint8_t *data, size_t bytes, raddr_t addr,
	raddr_t *ret_ring, size_t *ret_count);
/* Is the first arena still as in the C library's file, so that this malloc was never called? True
 * if exactly one place looks like that. */
bool arena_is_unused(const uint8_t *data, size_t bytes, raddr_t addr);
