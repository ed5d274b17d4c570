/* SPDX-License-Identifier: Apache-2.0
 *
 * The answer to one query: the window, the sums of each site in it, and the rows that faces print.
 * Built once; faces only read it, so that every face has the same sums.
 */
#pragma once

#include "analyzer/cube/window.h"
#include "analyzer/views/tree.h"

/* What reads the same: one entry of a list. */
struct row {
	uint32_t node;	       /* of the tree: its chain begins there; 0: no stack */
	uint32_t first, count; /* its sites: view->row_site[first...] */
	struct sums sums;
};

struct view {
	struct analysis *analysis; /* borrowed */
	struct query query;
	struct window window;
	uint64_t from_ns, to_ns; /* of the window, since the start of the trace */
	bool is_snapped;	 /* the user's moments lie within buckets */
	bool is_whole;
	struct frames frames;
	struct groups groups; /* by line */
	struct tree tree;
	struct sums *sums;	 /* by site of the cube; zero where the query leaves it out */
	struct sums total;	 /* of all sites that are in */
	struct window_peak peak; /* of all blocks, regardless of the query */
	struct row *row;
	size_t row_count;
	uint32_t *row_site;
	uint32_t *row_of_site; /* by site; UINT32_MAX: it has no figures */
};

/* Answers `query` (copied; its words are borrowed). The analysis must have its names, and get no
 * more. A usage error for a moment that cannot be read. */
HT_MUST_CHECK
struct ht_err *view_create(
	struct analysis *analysis, const struct query *query, bool utc, struct view **ret);
void view_destroy(struct view *view);

/* Indices of rows, those with most of `metric` first, then by bytes allocated; freed by the caller.
 */
HT_MUST_CHECK
struct ht_err *view_order(const struct view *view, enum metric metric, uint32_t **ret);
/* Whether the query chooses among the blocks of the window. */
bool view_is_filtered(const struct view *view);
/* Whether the view ends where the settle time begins, so that survivors tell more than what was
 * outstanding at its end. */
bool view_is_settled(const struct view *view);
/* Survivors if the view is settled, else what is outstanding. */
uint64_t view_held_blocks(const struct view *view, const struct sums *sums);
uint64_t view_held_bytes(const struct view *view, const struct sums *sums);
/* Whether a chain leaves frames out that --show-wrappers shows. */
bool view_has_skipped(const struct view *view);
/* The series of a row over the window. */
void view_series(const struct view *view, const struct row *row, struct window_series *ret);
/* The same of several rows together. */
HT_MUST_CHECK
struct ht_err *view_rows_series(
	const struct view *view, const uint32_t *row, size_t count, struct window_series *ret);
/* The same of all rows, and over any window of the cube. */
void view_total_series(const struct view *view, struct window window, struct window_series *ret);
/* A tree of all stacks by another grouping, or of all frames; and the sums of its nodes, own and
 * inclusive, freed by the caller. */
HT_MUST_CHECK
struct ht_err *view_own_sums(const struct view *view, const struct tree *tree, struct sums **ret);
