/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the word that a mistyped word probably means.
 */
#pragma once

#include "format/base.h"

struct closest {
	const char *word;  /* the mistyped word */
	const char *match; /* the nearest candidate so far; NULL: no candidate is near enough */
	size_t distance;
};

/* Call it for each candidate, with `closest` zero-initialised except for `word`. `candidate` is
 * near if at most one letter in three (at least one) is wrong, missing, extra, or swapped with the
 * next, or if `word` is its beginning. */
void closest_try(struct closest *closest, const char *candidate);
