/* SPDX-License-Identifier: Apache-2.0
 *
 * What is mapped, as far as the trace tells: disjoint ranges of addresses, each with what is known
 * about it. Neighbours that are alike are one. Memory is bounded by the number of ranges.
 */
#pragma once

#include "format/base.h"
#include "format/err.h"

/* The kernel allows a process 65,530 mappings where nobody has raised that. */
#define RANGES_MAX (1u << 18)

struct range {
	uint64_t lo, hi;
	uint32_t mapped_by, used_by; /* node ids: of the call that mapped it, and of the one that
				      * made it accessible; 0: none, or not known */
	bool usable;		     /* accessible; otherwise it is only reserved */
	bool file;		     /* of a file, not anonymous */
	bool before;		     /* mapped before the window */
	bool used_before;	     /* accessible since before the window */
};

/* Zero-initialised is empty and valid. */
struct ranges {
	void *root; /* tsearch(3) */
	size_t count;
};

/* Receives a piece that was taken out. It may not change the ranges. */
typedef struct ht_err *ranges_sink(void *context, const struct range *piece);

void ranges_deinit(struct ranges *ranges);
/* Puts a range in, whose place must be free, and which is not empty. `*ret_refused`: there are
 * RANGES_MAX. */
HT_MUST_CHECK
struct ht_err *ranges_put(struct ranges *ranges, const struct range *range, bool *ret_refused);
/* Is anything within [lo, hi)? */
bool ranges_overlap(const struct ranges *ranges, uint64_t lo, uint64_t hi);
/* Takes everything within [lo, hi) out; what lies across an end is cut there. Pieces come in no
 * order. */
HT_MUST_CHECK
struct ht_err *ranges_cut(
	struct ranges *ranges, uint64_t lo, uint64_t hi, ranges_sink *sink, void *context);
