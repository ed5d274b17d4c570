/* SPDX-License-Identifier: Apache-2.0
 *
 * The answer to one query: the window, the sums of each site in it, and the rows. It is built once.
 * Text, JSON, pages and exports only read it, so all of them show the same sums.
 */
#pragma once

#include "analyzer/cube/window.h"
#include "analyzer/views/tree.h"

/* One entry of a list: all sites whose chains look the same. */
struct row {
	uint32_t node;	       /* of the tree: the row's chain begins with this node; 0: no stack */
	uint32_t first, count; /* its sites are view->row_site[first .. first + count) */
	struct sums sums;
};

struct view {
	struct analysis *analysis; /* borrowed */
	struct query query;
	struct window window;
	uint64_t from_ns, to_ns; /* of the window, since the start of the trace */
	bool is_snapped; /* the user's moments lie within buckets, so the window begins or ends
			    elsewhere */
	bool is_whole;	 /* the window is the whole trace */
	struct frames frames;
	struct groups groups; /* by line */
	struct tree tree;
	struct sums *sums;	 /* by site of the cube; zero where the query leaves it out */
	struct sums total;	 /* of all sites that the query selects */
	struct window_peak peak; /* of all blocks, regardless of the query */
	struct row *row;
	size_t row_count;
	uint32_t *row_site;
	uint32_t *row_of_site; /* by site; UINT32_MAX: the site has no figures */
};

/* Answers `query` (copied; its words are borrowed). The analysis must have all its names already.
 * HT_ERR_USAGE for a moment that cannot be parsed or is not in the trace or the window. */
HT_MUST_CHECK
struct ht_err *view_create(
	struct analysis *analysis, const struct query *query, bool utc, struct view **ret);
void view_destroy(struct view *view);

/* Indices of all rows, sorted by `metric`, then by bytes allocated, largest first; freed by the
 * caller. */
HT_MUST_CHECK
struct ht_err *view_order(const struct view *view, enum metric metric, uint32_t **ret);
/* Whether the query selects only some blocks of the window. */
bool view_is_filtered(const struct view *view);
/* Whether the view ends where the settle time begins: then blocks that also survived the settle
 * time are known. */
bool view_is_settled(const struct view *view);
/* Blocks or bytes that survived the settle time if the view is settled, otherwise those
 * outstanding. */
uint64_t view_held_blocks(const struct view *view, const struct sums *sums);
uint64_t view_held_bytes(const struct view *view, const struct sums *sums);
/* Whether any chain omits frames that --show-wrappers would show. */
bool view_has_skipped(const struct view *view);
/* The series of a row over the window. */
void view_series(const struct view *view, const struct row *row, struct window_series *ret);
/* The series of several rows together. */
HT_MUST_CHECK
struct ht_err *view_rows_series(
	const struct view *view, const uint32_t *row, size_t count, struct window_series *ret);
/* The series of all rows together, over any window of the cube. */
void view_total_series(const struct view *view, struct window window, struct window_series *ret);
/* The own sums, by node, of another tree over the same stacks (another grouping, or with all
 * frames); freed by the caller. */
HT_MUST_CHECK
struct ht_err *view_own_sums(const struct view *view, const struct tree *tree, struct sums **ret);
