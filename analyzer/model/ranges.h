/* SPDX-License-Identifier: Apache-2.0
 *
 * The mappings of the process as far as the trace has them: disjoint address ranges with their
 * properties. Adjacent ranges with equal properties are joined. Memory is bounded by RANGES_MAX.
 */
#pragma once

#include "format/base.h"
#include "format/err.h"

/* The kernel's default limit of mappings is 65,530 (vm.max_map_count). */
#define RANGES_MAX (1u << 18)

struct range {
	uint64_t lo, hi;
	uint32_t mapped_by, used_by; /* node ids of the call that mapped it and of the call that
					made it accessible; 0: none or unknown */
	bool usable;		     /* accessible; false: only reserved */
	bool file;		     /* of a file, not anonymous */
	bool before;		     /* mapped before the window */
	bool used_before;	     /* accessible since before the window */
};

/* Zero-initialised is empty and valid. */
struct ranges {
	void *root; /* tsearch(3) */
	size_t count;
};

/* Receives a piece that was taken out. Must not change the ranges. */
typedef struct ht_err *ranges_sink(void *context, const struct range *piece);

void ranges_deinit(struct ranges *ranges);
/* Adds a range, which must not be empty or overlap another. `*ret_refused`: RANGES_MAX is reached,
 * nothing was added. */
HT_MUST_CHECK
struct ht_err *ranges_put(struct ranges *ranges, const struct range *range, bool *ret_refused);
/* Whether any range overlaps [lo, hi). */
bool ranges_overlap(const struct ranges *ranges, uint64_t lo, uint64_t hi);
/* Removes all ranges within [lo, hi) and passes them to the sink, in no order. A range that crosses
 * `lo` or `hi` is split, and only its part within is removed; but if RANGES_MAX is reached, its
 * other part is removed and passed too. */
HT_MUST_CHECK
struct ht_err *ranges_cut(
	struct ranges *ranges, uint64_t lo, uint64_t hi, ranges_sink *sink, void *context);
