/* SPDX-License-Identifier: Apache-2.0
 *
 * The result of a comparison with the picture from before the attach.
 */
#pragma once

#include <stdbool.h>

#define RESIDUE_TEXT_BYTES 160u

/* Each text is "equal", or names a difference, or says that something could not be read, which
 * counts as not equal. */
#define RESIDUE_CHECKS 6u /* number of texts in a report */

struct residue_report {
	char maps[RESIDUE_TEXT_BYTES];
	char fds[RESIDUE_TEXT_BYTES];
	char slots[RESIDUE_TEXT_BYTES];
	char text[RESIDUE_TEXT_BYTES];
	char threads[RESIDUE_TEXT_BYTES];
	char signals[RESIDUE_TEXT_BYTES];
	bool equal;
	bool page_only; /* the jump page that was to stay is the only difference */
};
