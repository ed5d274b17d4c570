/* SPDX-License-Identifier: Apache-2.0
 *
 * Traces side by side. Sites are the same where their chains have the same functions in the same
 * files: addresses, lines and numbers of one trace mean nothing in another.
 */
#pragma once

#include "analyzer/views/view.h"

#define COMPARE_VIEWS_MAX 64u

struct compare_entry {
	uint32_t view,
		row;	/* a view and a row of it that the names can be taken from: the newest */
	uint32_t first; /* its sums: compare->sums[first + index of the view] */
};

/* Zero-initialised is empty and valid. */
struct compare {
	const struct view *const *view; /* borrowed, in the order of time */
	uint32_t view_count;
	struct compare_entry *entry;
	size_t count, capacity;
	struct sums *sums;
	struct sums *even_sums; /* likewise, of the first part of each window that all reach */
	size_t sums_capacity, even_capacity;
	struct sums even_total[COMPARE_VIEWS_MAX];
	uint64_t even_ns[COMPARE_VIEWS_MAX]; /* how long that part is: up to a whole bucket */
	struct map by_chain;
};

HT_MUST_CHECK
struct ht_err *compare_init(
	struct compare *compare, const struct view *const *view, uint32_t view_count);
void compare_deinit(struct compare *compare);

static inline const struct sums *compare_sums(
	const struct compare *compare, const struct compare_entry *entry, uint32_t view)
{
	return &compare->sums[entry->first + view];
}

/* Levels (live, peak) and times are compared as they are, all else per minute of the window. */
bool compare_is_per_minute(enum metric metric);
/* A metric of an entry in one view, per minute where that is so. */
double compare_rate(const struct compare *compare, const struct compare_entry *entry, uint32_t view,
	enum metric metric);
/* The same of a whole view. */
double compare_total_rate(const struct compare *compare, uint32_t view, enum metric metric);

/* Is any of the captures a sample? */
bool compare_is_sample(const struct compare *compare);
/* The bound of compare_rate at 95 % (query/metric.h), and that of compare_total_rate; 0: it is
 * exact, or has none. */
double compare_bound(const struct compare *compare, const struct compare_entry *entry,
	uint32_t view, enum metric metric);
double compare_total_bound(const struct compare *compare, uint32_t view, enum metric metric);
/* The bound of a difference of two figures from their bounds. Samples of two captures are
 * independent: their variances add up. */
double compare_difference_bound(double before, double after);
/* The variance of compare_rate, and that of compare_total_rate; those of disjoint sites add up. */
double compare_variance(const struct compare *compare, const struct compare_entry *entry,
	uint32_t view, enum metric metric);
double compare_total_variance(const struct compare *compare, uint32_t view, enum metric metric);

enum compare_change {
	COMPARE_NEW,	/* there is nothing of it in the first view */
	COMPARE_GROWN,	/* by more than a tenth */
	COMPARE_SHRUNK, /* likewise */
	COMPARE_GONE,	/* there is nothing of it in the last view */
	COMPARE_SAME	/* or the change is less than a thousandth of all, or than its bound */
};

/*
 * Windows may differ in length. What was allocated counts per minute. Memory that is held, does
 * not: a cache fills once, however long the window is, and a leak goes on. Its change counts where
 * its amount and its rate agree on it, over the whole windows or over their first parts of one
 * length.
 */
enum compare_change compare_change_of(
	const struct compare *compare, const struct compare_entry *entry, enum metric metric);
/* The same of all sites together. */
enum compare_change compare_total_change(const struct compare *compare, enum metric metric);
const char *compare_change_name(enum compare_change change);
/* Sorts the entries by how much compare_rate changed from the first view to the last: what is new
 * or has grown first, the largest increase before others; then what is the same; then the rest. */
void compare_sort(struct compare *compare, enum metric metric);
