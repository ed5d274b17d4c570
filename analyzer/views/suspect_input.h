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
	uint32_t buckets; /* number of whole buckets in the window, at most SUSPECT_BUCKETS_MAX */
	/* Live bytes of blocks allocated in the window, at the end of each bucket. */
	const int64_t *live_bytes;
	/* By the bucket of the allocation; surviving: not freed by the end of the window,
	 * nor in the settle time after it. */
	const uint64_t *allocated_bytes, *allocated_blocks;
	const uint64_t *surviving_bytes, *surviving_blocks;
	const uint64_t *freed_blocks; /* blocks of this site that were allocated in the window, by
					 the bucket of their free */
	/* The same blocks, by the number of buckets from allocation to free; NULL: not known. */
	const uint64_t *freed_by_age;
	/* Totals of these freed blocks; 0 if no block was freed. */
	uint64_t freed_total_blocks, lifetime_ns_total, lifetime_max_ns;
	/* Frees of blocks that were allocated before the window or in a pause, if their size class
	 * is one that this site allocates; NULL: not known. */
	const uint64_t *older_freed_blocks;
	/* The program's work: blocks of all sites that were freed again, by the bucket of their
	 * allocation; NULL: not known. */
	const uint64_t *work_blocks;
	uint64_t window_ns; /* length of the window without pauses; 0: that of the buckets */
	/* Length of the part of the window after the buckets: nothing was allocated in it. */
	uint64_t idle_ns;
	/* How long frees were recorded after the window; the survivors are older by this time. */
	uint64_t settle_ns;
	bool is_sample; /* all counts are estimates */
	/* Total time of pauses of the capture; the buckets do not contain this time. */
	uint64_t paused_ns;
};
