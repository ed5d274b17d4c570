/* SPDX-License-Identifier: Apache-2.0
 *
 * Which of some words a mistyped one was to be.
 */
#pragma once

#include "format/base.h"

struct closest {
	const char *word;  /* the mistyped one */
	const char *match; /* the best so far; NULL: none is near enough */
	size_t distance;
};

/* To be called for each candidate, with `closest` zero-initialised but for `word`. A word is near
 * where a letter in three, and one at least, is wrong, missing, too much, or has changed places
 * with the next; or where it is the beginning of the candidate. */
void closest_try(struct closest *closest, const char *candidate);
