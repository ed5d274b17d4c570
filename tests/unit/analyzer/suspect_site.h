/* SPDX-License-Identifier: Apache-2.0
 *
 * A made-up allocation site: blocks with the times of their allocation and free, in seconds since
 * the window's start, become the series that the classifier reads.
 */
#pragma once

#include <math.h>
#include <string.h>

#include "analyzer/views/suspect.h"
#include "tests/support/random.h"

#define NEVER INFINITY

struct site {
	double window; /* seconds */
	uint32_t buckets;
	bool hides_older, hides_ages, is_sample;
	uint64_t random;
	int64_t live[SUSPECT_BUCKETS_MAX + 1];
	uint64_t allocated_bytes[SUSPECT_BUCKETS_MAX], surviving_bytes[SUSPECT_BUCKETS_MAX];
	uint64_t allocated[SUSPECT_BUCKETS_MAX], surviving[SUSPECT_BUCKETS_MAX];
	uint64_t freed[SUSPECT_BUCKETS_MAX], older[SUSPECT_BUCKETS_MAX];
	uint64_t by_age[SUSPECT_BUCKETS_MAX], freed_total;
	bool has_work;
	uint64_t work[SUSPECT_BUCKETS_MAX];
	double lives, longest;
};

static inline void site_init(struct site *site, double window, uint64_t seed)
{
	*site = (struct site){.window = window, .random = seed};
	site->buckets = 256 + (uint32_t)random_below(&site->random, 257);
}

/* Returns a random number of at least `lo`, less than `hi`. */
static inline double site_between(struct site *site, double lo, double hi)
{
	return lo + (hi - lo) * (double)(random_next(&site->random) >> 11) * 0x1p-53;
}

/* Like site_between, but each order of magnitude is equally likely; `lo` must be above 0. */
static inline double site_scale(struct site *site, double lo, double hi)
{
	return lo * pow(hi / lo, site_between(site, 0, 1));
}

static inline bool site_chance(struct site *site, double probability)
{
	return site_between(site, 0, 1) < probability;
}

static inline double site_exponential(struct site *site, double mean)
{
	return -mean * log(1 - site_between(site, 0, 1));
}

static inline double site_lognormal(struct site *site, double median, double sigma)
{
	double sum = -6;
	for (int i = 0; i < 12; i++)
		sum += site_between(site, 0, 1);
	double tail = sqrt(-2 * log(1 - site_between(site, 0, 1)));
	double normal = tail * cos(site_between(site, 0, 2 * M_PI));
	return median * exp(sigma * (site->buckets % 2 ? normal : (normal + sum) / sqrt(2)));
}

static inline uint32_t site_bucket(const struct site *site, double time)
{
	uint32_t ret = (uint32_t)(time / site->window * site->buckets);
	return ret < site->buckets ? ret : site->buckets - 1;
}

/* Adds a block; one that is not wholly in the window counts as far as the analyzer would see it. */
static inline void site_block(struct site *site, double birth, double death, uint64_t bytes)
{
	if (birth >= site->window || death < 0)
		return;
	bool is_freed = death < site->window;
	if (birth < 0) {
		if (is_freed)
			site->older[site_bucket(site, death)]++;
		return;
	}
	uint32_t born = site_bucket(site, birth);
	site->allocated[born]++;
	site->allocated_bytes[born] += bytes;
	site->live[born] += (int64_t)bytes;
	if (!is_freed) {
		site->surviving[born]++;
		site->surviving_bytes[born] += bytes;
		return;
	}
	uint32_t died = site_bucket(site, death);
	site->freed[died]++;
	site->live[died] -= (int64_t)bytes;
	site->by_age[died - born]++;
	site->freed_total++;
	site->lives += death - birth;
	site->longest = fmax(site->longest, death - birth);
}

/* Adds blocks of the rest of the program, which frees them again. */
static inline void site_work(struct site *site, double time, uint64_t blocks)
{
	site->has_work = true;
	if (time >= 0 && time < site->window)
		site->work[site_bucket(site, time)] += blocks;
}

static inline struct suspect site_classify(struct site *site)
{
	for (uint32_t i = 1; i < site->buckets; i++)
		site->live[i] += site->live[i - 1];
	struct suspect_input input = {.bucket_ns = (uint64_t)(site->window / site->buckets * 1e9),
		.buckets = site->buckets,
		.live_bytes = site->live,
		.allocated_bytes = site->allocated_bytes,
		.allocated_blocks = site->allocated,
		.surviving_bytes = site->surviving_bytes,
		.surviving_blocks = site->surviving,
		.freed_blocks = site->freed,
		.freed_by_age = site->hides_ages ? NULL : site->by_age,
		.freed_total_blocks = site->freed_total,
		.lifetime_ns_total = (uint64_t)(site->lives * 1e9),
		.lifetime_max_ns = (uint64_t)(site->longest * 1e9),
		.older_freed_blocks = site->hides_older ? NULL : site->older,
		.work_blocks = site->has_work ? site->work : NULL,
		.is_sample = site->is_sample};
	struct suspect ret;
	suspect_classify(&input, &ret);
	return ret;
}
