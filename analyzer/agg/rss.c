/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/agg/rss.h"

/*
 * What is harmless. Allocators keep what is freed, so that the peak counts, not the end; size
 * classes and fragmentation take up to half as much again (jemalloc's classes are 25 % apart at
 * most, glibc's holes are bounded by what was live in them); a small block takes a header and is
 * rounded up to 32 bytes at least. heaptap's own memory in the process is bounded by what attach
 * asks to be free (README, Limits).
 */
#define BLOCK_BYTES	 32u
#define OWN_BYTES	 (32u << 20)
#define OWN_THREAD_BYTES (256u << 10)

static int64_t difference(uint64_t a, uint64_t b)
{
	uint64_t distance = a > b ? a - b : b - a;
	int64_t bounded = distance > INT64_MAX ? INT64_MAX : (int64_t)distance;
	return a > b ? bounded : -bounded;
}

/* A trace may claim any sizes: the sum stays at the end of the range. */
static uint64_t plus(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

struct rss_growth rss_growth_of(const struct analysis *analysis)
{
	const struct model *model = &analysis->model;
	const struct profile *profile = &analysis->profile;
	uint64_t own_bytes = OWN_BYTES + OWN_THREAD_BYTES * (uint64_t)model->threads.tids;
	uint64_t block_bytes = plus(profile->peak_bytes, profile->peak_bytes / 2);
	block_bytes = plus(block_bytes, BLOCK_BYTES * profile->peak_blocks);
	/* Where mappings are recorded: some of them hold blocks, so that this is the most. */
	uint64_t mapped_bytes = mappings_accessible(&analysis->mappings.live);
	struct rss_growth ret = {
		.known = model->rss_max_bytes != 0,
		.growth_bytes = difference(model->rss_last_bytes, model->rss_first_bytes),
		.explained_bytes = difference(
			metrics_outstanding_bytes(&profile->total), profile->before_freed_bytes),
		.explicable_bytes = plus(plus(block_bytes, mapped_bytes), own_bytes),
	};
	ret.is_unexplained =
		ret.growth_bytes > 0 && (uint64_t)ret.growth_bytes > ret.explicable_bytes;
	return ret;
}
