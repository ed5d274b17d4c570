/* SPDX-License-Identifier: Apache-2.0
 *
 * The metrics of a set of blocks. Each is defined only here, as a function of sums; sums of
 * disjoint sets add up.
 */
#pragma once

#include "format/base.h"

enum metric_unit { METRIC_BYTES, METRIC_COUNT_OF_BLOCKS, METRIC_TIME_NS };

/* id, name, unit, whether a figure can be below 0, its value in `s` (struct sums), title */
#define METRICS(X)                                                                                 \
	X(OUTSTANDING, "outstanding", METRIC_BYTES, false,                                         \
		(int64_t)(s->allocated_bytes - s->freed_bytes),                                    \
		"allocated in the window and not freed by its end")                                \
	X(SURVIVORS, "survivors", METRIC_BYTES, false, (int64_t)sums_surviving_bytes(s),           \
		"allocated in the window, held until the trace ends")                              \
	X(GROWTH, "growth", METRIC_BYTES, true, s->growth_bytes,                                   \
		"live at the end of the window, less live at its start")                           \
	X(LIVE, "live", METRIC_BYTES, true, s->live_bytes, "live at the end of the window")        \
	X(PEAK, "peak", METRIC_BYTES, false, (int64_t)s->peak_bytes,                               \
		"live when the recorded blocks used most memory")                                  \
	X(ALLOCATED, "allocated", METRIC_BYTES, false, (int64_t)s->allocated_bytes,                \
		"bytes allocated in the window")                                                   \
	X(CALLS, "calls", METRIC_COUNT_OF_BLOCKS, false, (int64_t)s->allocations,                  \
		"allocations in the window")                                                       \
	X(TEMPORARY, "temporary", METRIC_COUNT_OF_BLOCKS, false, (int64_t)s->temporary,            \
		"freed before their thread allocated again")                                       \
	X(FREED, "freed", METRIC_BYTES, false, (int64_t)s->freed_bytes,                            \
		"allocated in the window and freed in it")                                         \
	X(LIFETIME, "lifetime", METRIC_TIME_NS, false, sums_mean_lifetime_ns(s),                   \
		"mean lifetime of the blocks that were freed")

enum metric {
#define X(id, name, unit, is_signed, value, title) METRIC_##id,
	METRICS(X)
#undef X
		METRIC_COUNT
};

/*
 * The sums of a set of blocks over a window. If the capture is a sample, all but `samples` are
 * estimates.
 */
#define SUMS_OUTSTANDING_BLOCKS METRIC_COUNT
#define SUMS_SURVIVING_BLOCKS	(METRIC_COUNT + 1)
#define SUMS_VARIANCES		(METRIC_COUNT + 2)

struct sums {
	uint64_t samples;		       /* number of recorded allocations */
	uint64_t allocations, allocated_bytes; /* in the window */
	uint64_t frees, freed_bytes;	       /* of these blocks, by the end of the window */
	uint64_t temporary;   /* number of these frees that ended a temporary block (DESIGN.md,
				 replay) */
	uint64_t lifetime_us; /* sum over the freed blocks */
	int64_t growth_blocks, growth_bytes; /* live at the end minus live at the start */
	/* live at the end, allocated in the window or earlier in the trace */
	int64_t live_blocks, live_bytes;
	uint64_t later_frees, later_freed_bytes; /* of these blocks, after the end of the window */
	uint64_t peak_bytes;			 /* share of the highest total of the window */
	/* If the capture is a sample: variances of the metrics, and of the two numbers of blocks
	 * that are no metric (sums_estimate); otherwise 0. */
	float variance[SUMS_VARIANCES];
};

struct metric_info {
	const char *name, *title;
	enum metric_unit unit;
	bool is_signed;
};

const struct metric_info *metric_info(enum metric metric);
/* The value of a metric. For METRIC_LIFETIME it is a mean, not a sum. */
int64_t metric_value(const struct sums *sums, enum metric metric);
/* For qsort: the greater value first, then more allocated bytes; 0: equal in both. */
int metric_compare(enum metric metric, const struct sums *x, const struct sums *y);
/* The bound of a figure at 95 %, in the metric's unit: half of the width of its confidence
 * interval. 0: the figure is exact, or has no bound (lifetime, temporary). */
int64_t metric_bound(const struct sums *sums, enum metric metric);
int64_t sums_outstanding_blocks_bound(const struct sums *sums);
int64_t sums_surviving_blocks_bound(const struct sums *sums);

/* A figure of a set of blocks. Values and variances of disjoint sets add up. */
struct figure {
	int64_t value;
	double variance; /* 0: the value is exact, or has no bound */
};
struct figure metric_figure(const struct sums *sums, enum metric metric);
void figure_add(struct figure *sum, struct figure more);
/* The bound at 95 %, as metric_bound. */
int64_t figure_bound(struct figure figure);
/* Sets the variances of the sums of one site in a sample. A block that is recorded with probability
 * p, and counts for w = 1 / p, adds the variance (1 - p) w^2 (Horvitz and Thompson, 1952).
 * `of_byte`, `of_block`: the variance of the site's bytes (of its blocks) in the whole trace,
 * divided by its estimated bytes (blocks). */
void sums_estimate(struct sums *sums, double of_byte, double of_block);
/* False for a figure that is known only to a bucket in a part of the window (cube/window.h). */
bool metric_is_exact(enum metric metric, bool is_whole_window);

static inline uint64_t sums_outstanding_blocks(const struct sums *sums)
{
	return sums->allocations - sums->frees;
}

static inline uint64_t sums_outstanding_bytes(const struct sums *sums)
{
	return sums->allocated_bytes - sums->freed_bytes;
}

static inline uint64_t sums_surviving_blocks(const struct sums *sums)
{
	return sums_outstanding_blocks(sums) - sums->later_frees;
}

static inline uint64_t sums_surviving_bytes(const struct sums *sums)
{
	return sums_outstanding_bytes(sums) - sums->later_freed_bytes;
}

/* The mean lifetime of freed blocks; 0 if none was freed. */
static inline int64_t sums_mean_lifetime_ns(const struct sums *sums)
{
	return sums->frees ? (int64_t)((double)sums->lifetime_us / (double)sums->frees * 1000) : 0;
}

/* Adds the figures of a disjoint set. */
void sums_add(struct sums *sum, const struct sums *more);
/* No block was allocated, freed or live. */
bool sums_are_zero(const struct sums *sums);
