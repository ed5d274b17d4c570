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

/* Call it for each candidate, with `closest` zero-initialised except for `word`. A candidate is
 * near if at most a third of the letters of `word` (at least one letter) is wrong, missing, extra,
 * or swapped with the next, or if `word` is its beginning. A `word` of one or two letters is near
 * only to itself. Words of more than 31 letters are not near to any. */
void closest_try(struct closest *closest, const char *candidate);
