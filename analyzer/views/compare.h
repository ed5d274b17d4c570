/* SPDX-License-Identifier: Apache-2.0
 *
 * Traces side by side. Two sites are the same if their chains have the same functions in the same
 * files: addresses, lines and numbers differ between builds and traces.
 */
#pragma once

#include "analyzer/views/view.h"

#define COMPARE_VIEWS_MAX 64u

struct compare_entry {
	uint32_t view, row; /* the newest view that has the site, and its row there: for names */
	uint32_t first;	    /* the entry's sums are at compare->sums[first + index of the view] */
};

/* Zero-initialised is empty and valid. */
struct compare {
	const struct view *const *view; /* borrowed, in the order of time */
	uint32_t view_count;
	struct compare_entry *entry;
	size_t count, capacity;
	struct sums *sums;
	struct sums *even_sums; /* sums of the first part of each window, as long as the shortest
				   window; indices as in `sums` */
	size_t sums_capacity, even_capacity;
	struct sums even_total[COMPARE_VIEWS_MAX];
	uint64_t even_ns[COMPARE_VIEWS_MAX]; /* length of that part, rounded to whole buckets */
	struct map by_chain;
};

HT_MUST_CHECK
struct ht_err *compare_init(
	struct compare *compare, const struct view *const *view, uint32_t view_count);
void compare_deinit(struct compare *compare);

/* The sums of an entry in one view. Here and below, `entry` NULL stands for all sites together. */
static inline const struct sums *compare_sums(
	const struct compare *compare, const struct compare_entry *entry, uint32_t view)
{
	return entry ? &compare->sums[entry->first + view] : &compare->view[view]->total;
}

/* Whether a metric is compared per minute of the window. Levels (live, peak) and times are not. */
bool compare_is_per_minute(enum metric metric);
/* A metric of an entry in one view; per minute if compare_is_per_minute. */
double compare_rate(const struct compare *compare, const struct compare_entry *entry, uint32_t view,
	enum metric metric);

/* Whether any of the captures is a sample. */
bool compare_is_sample(const struct compare *compare);
/* The bound of compare_rate at 95 % (query/metric.h); 0: the figure is exact, or its bound is
 * unknown. */
double compare_bound(const struct compare *compare, const struct compare_entry *entry,
	uint32_t view, enum metric metric);
/* The bound of a difference of two figures from their bounds. Samples of two captures are
 * independent: their variances add up. */
double compare_difference_bound(double before, double after);
/* The variance of compare_rate. Variances of disjoint sites add up. */
double compare_variance(const struct compare *compare, const struct compare_entry *entry,
	uint32_t view, enum metric metric);

enum compare_change {
	COMPARE_NEW,	/* its figure is 0 in the first view */
	COMPARE_GROWN,	/* its figure rose by more than a tenth */
	COMPARE_SHRUNK, /* its figure fell by more than a tenth */
	COMPARE_GONE,	/* its figure is 0 in the last view */
	COMPARE_SAME /* also if the change is at most a thousandth of the sum of both totals, or at
			most its bound */
};

/*
 * Windows may differ in length. Allocations are compared per minute. Memory that is still held
 * cannot be: a cache fills once, however long the window is, but a leak goes on. So held memory has
 * changed only if its amount and its rate per minute show the same change, either over the whole
 * windows or over their first parts of equal length.
 */
enum compare_change compare_change_of(
	const struct compare *compare, const struct compare_entry *entry, enum metric metric);
const char *compare_change_name(enum compare_change change);
/* Sorts the entries by how much compare_rate changed from the first view to the last: new and grown
 * entries first, the largest increase first; then unchanged ones; then the rest. */
void compare_sort(struct compare *compare, enum metric metric);
