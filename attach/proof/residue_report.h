/* SPDX-License-Identifier: Apache-2.0
 *
 * What a comparison with the picture before found.
 */
#pragma once

#include <stdbool.h>

#define RESIDUE_TEXT_BYTES 160u

/* Each is "equal", or what differs, or that it could not be read: that proves nothing. */
#define RESIDUE_CHECKS 6u /* texts of a report */

struct residue_report {
	char maps[RESIDUE_TEXT_BYTES];
	char fds[RESIDUE_TEXT_BYTES];
	char slots[RESIDUE_TEXT_BYTES];
	char text[RESIDUE_TEXT_BYTES];
	char threads[RESIDUE_TEXT_BYTES];
	char signals[RESIDUE_TEXT_BYTES];
	bool equal;
	bool page_only; /* the page that was to stay is all that differs */
};
