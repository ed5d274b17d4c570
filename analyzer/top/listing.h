/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of the live table: compares a snapshot with an earlier one, sorts, filters, and adds the
 * lines of opened rows. Independent of a terminal.
 */
#pragma once

#include "analyzer/top/snapshot.h"

enum listing_sort {
	LISTING_GROWTH, /* growing sites first, then most outstanding bytes; with a baseline, by the
			   change since then */
	LISTING_OUTSTANDING,
	LISTING_PER_MINUTE,
	LISTING_ALLOCATED,
	LISTING_CALLS,
	LISTING_TEMPORARY,
	LISTING_AGE,
	LISTING_SORTS
};
/* "growth" ..., ended by NULL, in the order of enum listing_sort. */
extern const char *const listing_sort_names[LISTING_SORTS + 1];

/* The figures in the columns of a row. */
struct listing_figures {
	int64_t outstanding_bytes; /* with a baseline: the change since then */
	/* In a sample: the bound of outstanding_bytes at 95 %, or for a change an upper limit of
	 * its bound; otherwise 0 */
	double outstanding_bound_bytes;
	/* Change of outstanding bytes within the last minute; with a baseline, the mean change a
	 * minute since then. */
	int64_t per_minute_bytes;
	double bytes_per_s, calls_per_s; /* since the baseline, or else since `before` */
	uint64_t temporary, allocations; /* since the baseline, or else since the capture began */
	uint64_t oldest_ns;		 /* 0: nothing is outstanding */
};

enum listing_kind {
	LISTING_SITE,	  /* a function with its caller */
	LISTING_FUNCTION, /* all sites of a function */
	LISTING_FRAME,	  /* a line of the chain of the site above */
	LISTING_NOTE,	  /* how many chains the site above has, if more than one */
};

struct listing_row {
	enum listing_kind kind;
	unsigned depth;			 /* below a row that is open */
	uint64_t id;			 /* stays the same from table to table */
	const struct snapshot_row *site; /* of a function: its largest site */
	uint32_t sites;			 /* number of sites of a function */
	uint32_t frame;			 /* of LISTING_FRAME: number of its text */
	bool is_growing, is_open;
	struct listing_figures figures;
	uint32_t trend_count;
	uint64_t trend[SNAPSHOT_TREND];
};

struct listing_options {
	enum listing_sort sort;
	const char *filter; /* a part of a function, file or module in a chain, in upper or lower
			       case; NULL or "": all */
	bool is_by_function;
	const uint64_t *open; /* ids of rows that are open */
	size_t open_count;
};

struct listing {
	struct listing_row *row;
	size_t count;
	struct listing_figures total; /* of all sites, also those that the filter leaves out */
	double span_s;		      /* time over which the rates are computed */
};

/* `before`: the snapshot since which rates are computed; NULL: the beginning. `baseline`: the
 * snapshot since which all figures are computed; NULL: none. The table borrows `now`. */
HT_MUST_CHECK
struct ht_err *listing_make(const struct snapshot *now, const struct snapshot *before,
	const struct snapshot *baseline, const struct listing_options *options,
	struct listing *ret);
void listing_deinit(struct listing *listing);
