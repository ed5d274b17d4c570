/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of a view that hold memory, classified (suspect.h) and put in the order in which a
 * person should look at them.
 */
#pragma once

#include "analyzer/views/suspect.h"
#include "analyzer/views/view.h"

#define SUSPECTS_LOOKED_AT                                                                         \
	2048u		  /* sites that are classified: those with most held bytes                 \
			   */
#define SUSPECTS_MAX 256u /* that are kept */

/* A site: rows that read alike (callers.h). If some of its chains grow and the others do not, the
 * class, the slope and the sentence are those of the growing ones; the sums are of all. */
struct suspects_entry {
	uint32_t row; /* of the view: the judged one with most held bytes (view_held_bytes) */
	size_t first; /* its rows: suspects.member[first .. first + chains), judged ones first */
	size_t chains;
	size_t judged;	       /* rows that the class is about */
	uint64_t judged_bytes; /* held ones of these rows */
	uint64_t held_bytes;   /* of all rows */
	struct sums sums;
	struct suspect suspect, others; /* of the judged rows; of the others, if there are any */
};

/* Zero-initialised is empty and valid. */
struct suspects {
	struct suspects_entry *entry; /* growing first, the surest and steepest first */
	size_t count, growing;
	uint32_t *member; /* rows of the view */
};

/* Sites of one class, SUSPECT_CLASS_COUNT: of any, in the order of suspects; freed by the caller.
 */
HT_MUST_CHECK
struct ht_err *suspects_of_class(const struct suspects *suspects, enum suspect_class of_class,
	struct suspects_entry **ret, size_t *ret_count);
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
