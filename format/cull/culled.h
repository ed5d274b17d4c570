/* SPDX-License-Identifier: Apache-2.0
 *
 * The entries of a REC_CULLED body. An entry is a byte (kind in bits 0-3, count of numbers in bits
 * 4-7) and that many LEB128 numbers. A reader skips kinds, and numbers, that it does not know.
 */
#pragma once

#include "format/record.h"

enum culled_kind {
	CULLED_THREAD = 1, /* the next entries are of this thread */
	CULLED_BLOCKS,	   /* blocks of one site that ended in the interval */
	CULLED_PEAK,	   /* change of a site's share of the peak */
	CULLED_FREES,	   /* frees of culled blocks by this thread */
	CULLED_LIVES,	   /* culled blocks by the power of two of their lives; of all threads */
};

/* Numbers of each kind. A number that an entry lacks is 0. */
enum {
	CULLED_THREAD_TID,
	CULLED_THREAD_TSC
}; /* TSC: a time at which the thread has the name that the entries mean */
enum {
	CULLED_BLOCKS_NODE,
	CULLED_BLOCKS_KEY,
	CULLED_BLOCKS_AGE, /* number of intervals from birth to end; 0: both in this interval */
	CULLED_BLOCKS_COUNT,
	CULLED_BLOCKS_BYTES,
	CULLED_BLOCKS_LIFETIME_US, /* sum over the blocks */
	CULLED_BLOCKS_LONGEST_NS,
	CULLED_BLOCKS_TEMPORARY, /* temporary blocks of the site, age and interval, including those
				    that are written as events */
};
enum { CULLED_PEAK_NODE, CULLED_PEAK_KEY, CULLED_PEAK_CHANGE }; /* CHANGE: culled_fold, bytes */
enum { CULLED_FREES_FUNCTION, CULLED_FREES_COUNT, CULLED_FREES_BYTES };
enum { CULLED_LIVES_CLASS, CULLED_LIVES_COUNT, CULLED_LIVES_BYTES };

#define CULLED_NUMBERS_MAX 15u

struct culled_entry {
	unsigned kind, count; /* `count`: of the numbers that culled_next has read */
	uint64_t number[CULLED_NUMBERS_MAX];
};

/* A site's key: size class (significant bits of the size), function, and whether numbers of
 * interpreted functions in the stack mean nothing. */
#define CULLED_KEY_HOOK_SHIFT 7u
#define CULLED_KEY_CLASS      127u
#define CULLED_KEY_HOOK	      15u
#define CULLED_KEY_PLAIN      (1u << 11)

/* Appends an entry; leaves out zeros at its end and ignores entry->count. */
HT_MUST_CHECK
struct ht_err *culled_put(struct bytes_out *body, const struct culled_entry *entry);
/* Takes the next entry. False at the end, or where the body is malformed. */
HT_MUST_CHECK
bool culled_next(struct bytes *body, struct culled_entry *ret);

/* The middle of an interval, in ns since the window's start; at most UINT64_MAX. */
static inline uint64_t culled_time_ns(uint64_t interval)
{
	return interval < UINT64_MAX / TRACE_CULLED_NS
		       ? interval * TRACE_CULLED_NS + TRACE_CULLED_NS / 2
		       : UINT64_MAX;
}

/* The class of a size or of a life: number of significant bits. */
static inline unsigned culled_class(uint64_t number)
{
	return number ? 64 - (unsigned)__builtin_clzll(number) : 0;
}

/* A signed number as an unsigned one that is small if the number is near 0 (zigzag). */
static inline uint64_t culled_fold(int64_t change)
{
	return (uint64_t)change << 1 ^ (uint64_t)(change >> 63);
}

static inline int64_t culled_unfold(uint64_t folded)
{
	return (int64_t)(folded >> 1 ^ -(folded & 1));
}
