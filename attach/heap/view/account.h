/* SPDX-License-Identifier: Apache-2.0
 *
 * How much one allocator has handed out, by its own data structures.
 */
#pragma once

#include "format/base.h"
#include "format/memory.h"

#define HEAP_REASON_BYTES 160u
#define HEAP_VALUES_MAX	  8u

/* A figure that only this allocator has. */
struct heap_value {
	enum memory_kind kind;
	uint64_t bytes;
};

/* Memory that one allocator has handed out to the program. */
struct heap_account {
	char allocator[32];
	bool known; /* if false, only `allocator` and `reason` have a meaning */
	/* Blocks that the program owns, with their headers and the rounding of their sizes. */
	uint64_t held_bytes;
	uint64_t off_bytes;    /* maximum error of held_bytes */
	uint64_t system_bytes; /* memory that the allocator has from the system */
	/* glibc's and jemalloc's arenas, mimalloc's heaps or threads, tcmalloc's caches. */
	uint32_t arenas;
	uint32_t header_bytes; /* of a block, beyond malloc_usable_size */
	struct heap_value value[HEAP_VALUES_MAX];
	uint32_t value_count;
	char reason[HEAP_REASON_BYTES]; /* why the account is unknown or inexact; "": neither */
};

/* Adds a figure, up to HEAP_VALUES_MAX. */
void account_value(struct heap_account *account, enum memory_kind kind, uint64_t bytes);
/* Sets `reason` unless it is set: call it with the most important reason first. */
HT_PRINTF(2, 3) void account_explain(struct heap_account *account, const char *fmt, ...);

/* The absolute difference. */
static inline uint64_t account_distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}
