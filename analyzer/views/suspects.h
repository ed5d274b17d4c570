/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of a view that hold memory, classified (suspect.h) and sorted by urgency: growing sites
 * first.
 */
#pragma once

#include "analyzer/views/suspect.h"
#include "analyzer/views/view.h"

/* Limit of sites, and of single rows and sizes, that are classified: most held bytes first. */
#define SUSPECTS_LOOKED_AT 2048u
#define SUSPECTS_MAX	   256u /* most sites returned */

/* A site: rows with equal callers_key. If some of its chains grow and the others do not, the class,
 * the slope and the sentence are those of the growing ones; the sums are of all. */
struct suspects_entry {
	uint32_t row; /* of the view: the judged row with most held bytes (view_held_bytes) */
	size_t first; /* the site's rows are suspects.member[first .. first + chains), judged rows
			 first */
	size_t chains;
	size_t judged;	       /* number of rows that `suspect` is about */
	uint64_t judged_bytes; /* held bytes of the judged rows */
	uint64_t held_bytes;   /* of all rows */
	struct sums sums;
	struct suspect suspect, others; /* `suspect`: finding about the judged rows; `others`: about
					   the other rows, if there are any */
};

/* Zero-initialised is empty and valid. */
struct suspects {
	/* Growing ones first, by confidence times slope; then survivors (suspect.h), then others,
	 * by held bytes; the greatest first. */
	struct suspects_entry *entry;
	size_t count, growing;
	uint32_t *member; /* rows of the view */
};

/* The finding about row `row` of the entry, 0 .. chains. */
const struct suspect *suspects_row_suspect(const struct suspects_entry *entry, size_t row);
HT_MUST_CHECK
struct ht_err *suspects_find(const struct view *view, struct suspects *ret);
void suspects_deinit(struct suspects *suspects);
/* The frame of the view that a row is named after; UINT32_MAX: the row has no stack. */
uint32_t suspects_leaf_frame(const struct view *view, const struct row *row);
/* The class of each row of the view, SUSPECT_CLASS_COUNT where it was not classified; freed by the
 * caller. */
HT_MUST_CHECK
struct ht_err *suspects_classes(
	const struct view *view, const struct suspects *suspects, enum suspect_class **ret);
