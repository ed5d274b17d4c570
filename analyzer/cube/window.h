/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers of the cube for a window of whole buckets: sums by site, and series of a set of sites.
 * Sums are exact. For a part of the trace, a site's share of the peak is its live bytes at the end
 * of the bucket with the highest total.
 */
#pragma once

#include "analyzer/cube/cube.h"
#include "analyzer/query/metric.h"

/* Buckets [from, to) of a cube. */
struct window {
	uint32_t from, to;
};

/* The whole trace. */
struct window window_whole(const struct cube *cube);
/* The buckets that overlap [from_ns, to_ns); at least one if the trace has any. */
struct window window_snap(const struct cube *cube, uint64_t from_ns, uint64_t to_ns);
bool window_is_whole(const struct cube *cube, struct window window);
uint64_t window_start_ns(const struct cube *cube, struct window window);
uint64_t window_end_ns(const struct cube *cube, struct window window);

/* The bucket with the highest total of the window, and that total. */
struct window_peak {
	uint32_t bucket;  /* only for a part of the trace; for the whole trace 0 */
	uint64_t bytes;	  /* of blocks allocated in the trace */
	uint64_t time_ns; /* of the peak for the whole trace; otherwise the bucket's end */
};
struct window_peak window_peak(const struct cube *cube, struct window window);

/* Sums of each site, cube->site_count of them; freed by the caller. */
HT_MUST_CHECK
struct ht_err *window_sums(const struct cube *cube, struct window window, struct sums **ret);
/* As window_sums, only for blocks allocated in the window and live at the end of bucket `alive`,
 * which is in the window: `allocations` counts these blocks, `frees` their later frees in the
 * window. */
HT_MUST_CHECK
struct ht_err *window_sums_alive(
	const struct cube *cube, struct window window, uint32_t alive, struct sums **ret);

/* In a sample, the variance per estimated byte, and per estimated block, of a site. The variance of
 * a sum is this times the sum. */
struct window_spread {
	double of_byte, of_block;
};
struct window_spread window_spread(const struct cube *cube, uint32_t site);

/* Bytes of a site's blocks that were allocated in the window and freed after it. */
uint64_t window_freed_later(const struct cube *cube, struct window window, uint32_t site);

/* Series of a set of sites, by bucket of the window; all TIMELINE_STEPS long at most. */
struct window_series {
	uint32_t count;
	int64_t live_bytes[TIMELINE_STEPS]; /* at the end of the bucket, of blocks allocated in the
					       window */
	uint64_t allocated_bytes[TIMELINE_STEPS], allocated_blocks[TIMELINE_STEPS];
	uint64_t freed_blocks[TIMELINE_STEPS]; /* of blocks allocated in the window */
	uint64_t freed_by_age[TIMELINE_STEPS]; /* the same blocks, by number of buckets from birth
						  to death; see below */
	/* By bucket of birth. If the window ends with the trace, blocks freed in the settle time
	 * are not here but in freed_by_age. */
	uint64_t surviving_bytes[TIMELINE_STEPS], surviving_blocks[TIMELINE_STEPS];
	uint64_t older_freed_blocks[TIMELINE_STEPS]; /* frees of blocks older than the window, if
							their size class is one of the sites' */
	uint64_t longest_ns;			     /* longest life of a freed block */
};

/* `site`: indices of `count` sites. */
void window_series(const struct cube *cube, struct window window, const uint32_t *site,
	size_t count, struct window_series *ret);
