/* SPDX-License-Identifier: Apache-2.0
 *
 * Does a site grow? A class for the series of one allocation site, with a slope, a confidence and
 * one sentence (analyzer/DESIGN.md, Suspects).
 */
#pragma once

#include "format/base.h"

#define SUSPECT_BUCKETS_MAX 512u
#define SUSPECT_TEXT_BYTES  192u

/* One site. The arrays are borrowed and have `buckets` entries. */
struct suspect_input {
	uint64_t bucket_ns;
	uint32_t buckets; /* whole ones of the window, at most SUSPECT_BUCKETS_MAX */
	/* Of blocks allocated in the window, at the end of each bucket. */
	const int64_t *live_bytes;
	/* By the bucket of the allocation; surviving: not freed by the end of the window. */
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
	bool is_sample; /* all counts are estimates */
	/* Pauses of the capture: their time is in none of the buckets. */
	uint64_t paused_ns;
};

enum suspect_class {
	SUSPECT_GROWING,
	SUSPECT_PLATEAU,  /* it grew, and stopped or slows down: a cache that filled */
	SUSPECT_SPIKE,	  /* one short excursion */
	SUSPECT_PERIODIC, /* it rises and falls again and again */
	SUSPECT_CHURN,	  /* as much is freed as is allocated */
	SUSPECT_UNCLEAR,  /* the text says why */
	SUSPECT_CLASS_COUNT
};

struct suspect {
	enum suspect_class class;
	/* Of blocks that stay; 0 unless the class is SUSPECT_GROWING. */
	double slope_bytes_per_s;
	double confidence;  /* in the class, 0..1 */
	uint64_t oldest_ns; /* age of the oldest surviving block at the window's end, to a bucket */
	char text[SUSPECT_TEXT_BYTES]; /* one plain sentence */
};

/* Total: any numbers give a class. */
void suspect_classify(const struct suspect_input *input, struct suspect *ret);
/* "growing" ...; the names of JSON and of --class. */
const char *suspect_class_name(enum suspect_class class);
