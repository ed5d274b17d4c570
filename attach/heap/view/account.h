/* SPDX-License-Identifier: Apache-2.0
 *
 * What one allocator holds, as a reader of its books says it.
 */
#pragma once

#include "format/base.h"
#include "format/memory.h"

#define HEAP_REASON_BYTES 160u
#define HEAP_VALUES_MAX	  8u

/* A figure of one allocator's own, beside those that all have. */
struct heap_value {
	enum memory_kind kind;
	uint64_t bytes;
};

/* What one allocator has given to the program, by its own books. */
struct heap_account {
	char allocator[32];
	bool known; /* otherwise only `allocator` and `reason` mean anything */
	/* Blocks that the program has, with their headers and what they were rounded up by. */
	uint64_t held_bytes;
	uint64_t off_bytes;    /* held_bytes is off by no more than that */
	uint64_t system_bytes; /* that the allocator has from the system */
	uint32_t arenas;
	uint32_t header_bytes; /* of a block, beside what malloc_usable_size tells */
	struct heap_value value[HEAP_VALUES_MAX];
	uint32_t value_count;
	char reason[HEAP_REASON_BYTES]; /* why it is unknown, or off; empty: it is neither */
};

/* Adds a figure; there is room for HEAP_VALUES_MAX. */
void account_value(struct heap_account *account, enum memory_kind kind, uint64_t bytes);
/* The first reason stays: it is the weightier one. */
HT_PRINTF(2, 3) void account_explain(struct heap_account *account, const char *fmt, ...);

/* Between two sums of bytes, whichever is the larger. */
static inline uint64_t account_distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}
