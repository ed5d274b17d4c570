/* SPDX-License-Identifier: Apache-2.0
 *
 * glibc's arenas (struct malloc_state of 2.27 and later). The first is a variable of the C library
 * without an exported name: it is recognised by its list heads, which point at each other.
 */
#pragma once

#include "attach/heap/view/view.h"

#define ARENA_FASTBINS 10u
#define ARENA_BINS     127u
#define ARENAS_MAX     1024u

/* As it lies in memory. */
struct arena_state {
	int32_t mutex, flags, have_fastchunks, padding;
	raddr_t fast[ARENA_FASTBINS];
	raddr_t top, last_remainder;
	raddr_t bin[ARENA_BINS][2]; /* first and last chunk; the first bin: unsorted */
	uint32_t binmap[4];
	raddr_t next, next_free;
	uint64_t attached_threads;
	uint64_t system_bytes, system_max_bytes;
};

/* The address that chunks of bin `index` take for their neighbour at both ends. */
raddr_t arena_bin(raddr_t arena, size_t index);
/* Reads the arena at `addr`; false unless it looks like one in every respect. */
bool arena_read(struct view *view, raddr_t addr, struct arena_state *ret);
/*
 * The first arena among the variables `data`, copied from `addr` on; 0: there is none, or more than
 * one place looks like it. `ret_ring` gets all arenas, that one first; malloc'd by the caller with
 * room for ARENAS_MAX.
 */
raddr_t arena_find(struct view *view, const uint8_t *data, size_t bytes, raddr_t addr,
	raddr_t *ret_ring, size_t *ret_count);
/* Is the first arena among these variables as the C library's file has it: no block was ever asked
 * for, of this malloc? Exactly one place looks like that. */
bool arena_is_unused(const uint8_t *data, size_t bytes, raddr_t addr);
