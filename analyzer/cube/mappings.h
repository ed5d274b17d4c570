/* SPDX-License-Identifier: Apache-2.0
 *
 * The program's mappings, made by its allocators or by other code. They are counted separately from
 * blocks, because blocks lie in mappings. An accessible byte counts for the stack of the mmap,
 * mremap or mprotect that made it accessible; a reserved byte (PROT_NONE) for the stack of the call
 * that mapped it.
 */
#pragma once

#include "format/map.h"
#include "analyzer/model/ranges.h"
#include "analyzer/model/replay.h"
#include "format/record.h"

struct mappings_bytes {
	uint64_t anonymous, file; /* accessible */
	uint64_t reserved;	  /* not accessible, anonymous or of a file */
};

struct mappings_stack {
	uint32_t node;	     /* leaf node, 0: no stack */
	uint32_t peak_epoch; /* value of mappings.peak_epoch that peak_bytes belongs to */
	uint64_t calls;
	uint64_t made_bytes; /* bytes made accessible by these calls */
	struct mappings_bytes live;
	uint64_t peak_bytes; /* the stack's share of the peak; valid after mappings_finish */
};

#define MAPPINGS_CALLS 6u /* number of values of enum abi_mapping_call */

/* Zero-initialised is empty and valid. */
struct mappings {
	uint64_t calls[MAPPINGS_CALLS];
	uint64_t made_bytes;
	struct mappings_bytes live; /* of the window's mappings, at its end */
	uint64_t before_bytes;	    /* accessible bytes of older mappings that were unmapped, moved
				       or made inaccessible */
	uint64_t advised_bytes;	    /* returned to the kernel by madvise, still mapped */
	uint64_t peak_bytes, peak_time_ns; /* highest number of accessible bytes in the window */
	uint32_t peak_epoch;
	uint64_t odd;	  /* impossible events */
	uint64_t refused; /* ranges beyond RANGES_MAX */

	struct mappings_stack *stack;
	size_t stack_count, stack_capacity;
	struct map by_node;
	struct ranges ranges;
	struct range *moving; /* by stream: the range that its mremap moves; hi 0: unknown */
	size_t moving_capacity;
	struct range *piece; /* scratch of mprotect */
	size_t piece_count, piece_capacity;
};

void mappings_deinit(struct mappings *mappings);
/* Takes a range that was mapped before the window. */
HT_MUST_CHECK
struct ht_err *mappings_before(struct mappings *mappings, const struct rec_range *range);
/* Takes an ABI_EVENT_MAPPING of this stream, with its time since the window's start. */
HT_MUST_CHECK
struct ht_err *mappings_event(
	struct mappings *mappings, uint32_t stream, const struct event *event, uint64_t time_ns);
/* Call after the last event: makes peak_bytes of the stacks valid. */
void mappings_finish(struct mappings *mappings);
/* Indices of `stack`, sorted by accessible, then reserved, then made bytes, most first; freed by
 * the caller. */
HT_MUST_CHECK
struct ht_err *mappings_order(const struct mappings *mappings, uint32_t **ret);

static inline uint64_t mappings_accessible(const struct mappings_bytes *bytes)
{
	return bytes->anonymous + bytes->file;
}
