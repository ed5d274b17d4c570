/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of a view that hold memory, classified (suspect.h) and put in the order in which a
 * person should look at them.
 */
#pragma once

#include "analyzer/views/suspect.h"
#include "analyzer/views/view.h"

#define SUSPECTS_LOOKED_AT                                                                         \
	2048u		  /* sites that are classified: those with most outstanding bytes          \
			   */
#define SUSPECTS_MAX 256u /* that are kept */

/* A site: rows that read alike (callers.h), classified as one. Large rows that do not grow are a
 * site of their own beside rows that do. */
struct suspects_entry {
	uint32_t row; /* of the view: the one with most outstanding bytes */
	size_t first; /* its rows: suspects.member[first .. first + chains) */
	size_t chains;
	struct sums sums;
	struct suspect suspect;
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
