/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers frames from 0 in the order of their first use. Frames that print the same get one number,
 * for example if a file is mapped twice.
 */
#pragma once

#include "analyzer/views/view.h"

/* Zero-initialised is empty and valid. */
struct frame_numbers {
	const struct view *view; /* borrowed */
	uint32_t *number_of;	 /* by frame of the view: number + 1; 0: not used yet */
	uint32_t *slot;		 /* a hash table of numbers + 1; 0: free */
	size_t slot_count;	 /* a power of two */
	uint32_t *met;		 /* by number: frame of the view */
	uint32_t count;
};

HT_MUST_CHECK
struct ht_err *frame_numbers_init(struct frame_numbers *numbers, const struct view *view);
void frame_numbers_deinit(struct frame_numbers *numbers);
/* The number of a frame of the view, assigned at its first use. */
uint32_t frame_numbers_get(struct frame_numbers *numbers, uint32_t frame);
