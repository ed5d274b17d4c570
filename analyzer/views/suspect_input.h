/* SPDX-License-Identifier: Apache-2.0
 *
 * The series of one site, from which its class is read (suspect.h).
 */
#pragma once

#include "format/base.h"

#define SUSPECT_BUCKETS_MAX 512u

/* One site. The arrays are borrowed and have `buckets` entries. */
struct suspect_input {
	uint64_t bucket_ns;
	uint32_t buckets; /* whole ones of the window, at most SUSPECT_BUCKETS_MAX */
	/* Of blocks allocated in the window, at the end of each bucket. */
	const int64_t *live_bytes;
	/* By the bucket of the allocation; surviving: not freed by the end of the window,
	 * nor in the settle time after it. */
	const uint64_t *allocated_bytes, *allocated_blocks;
	const uint64_t *surviving_bytes, *surviving_blocks;
	const uint64_t *freed_blocks; /* of this site and the window, by the bucket of the free */
	/* The same, by buckets from allocation to free; NULL: not known. */
	const uint64_t *freed_by_age;
	/* Of these freed blocks; the longest life is 0 where none was freed. */
	uint64_t freed_total_blocks, lifetime_ns_total, lifetime_max_ns;
	/* Frees of blocks older than the window, or of a pause, whose sizes (power-of-two class)
	 * this site allocates; NULL: not known. */
	const uint64_t *older_freed_blocks;
	/* Blocks of all sites by the bucket of their allocation, those alone that were freed again:
	 * how much the program does; NULL: not known. */
	const uint64_t *work_blocks;
	uint64_t window_ns; /* its length without pauses; 0: that of the buckets */
	/* How long the window goes on behind the buckets: nothing was allocated in that time. */
	uint64_t idle_ns;
	/* Recorded frees went on for so long after the window, and survivors are older by it. */
	uint64_t settle_ns;
	bool is_sample; /* all counts are estimates */
	/* Pauses of the capture: their time is in none of the buckets. */
	uint64_t paused_ns;
};
