/* SPDX-License-Identifier: Apache-2.0
 *
 * The process's memory as the kernel counts it, against what the trace holds: how much of its
 * growth the trace explains, and whether more is missing than can be for harmless reasons.
 */
#pragma once

#include "analyzer/agg/analysis.h"

struct rss_growth {
	bool known; /* there are samples */
	/* From the first sample to the last. */
	int64_t growth_bytes;
	/* What blocks add to it: those that are outstanding, without those of before that were
	 * freed. */
	int64_t explained_bytes;
	/* The most that the window's blocks, the allocator's way with them, mappings, where they
	 * are recorded, and heaptap itself can have added: rss.c. Beyond it something grew that the
	 * trace does not hold. */
	uint64_t explicable_bytes;
	bool is_unexplained; /* growth_bytes is more than that */
};

struct rss_growth rss_growth_of(const struct analysis *analysis);
