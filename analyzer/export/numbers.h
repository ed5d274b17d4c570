/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers the indices of an array, such as groups or modules, from 0 in the order of their first
 * use, for formats that list only what they use.
 */
#pragma once

#include "format/base.h"
#include "format/err.h"

/* Zero-initialised is empty and valid. */
struct numbers {
	uint32_t *number_of; /* by index: its number + 1; 0: not used yet */
	uint32_t *index;     /* by number */
	uint32_t count;
};

/* For indices below `size`; `what` names them in the message of an error. Call numbers_deinit also
 * after an error. */
HT_MUST_CHECK
struct ht_err *numbers_init(struct numbers *numbers, size_t size, const char *what);
void numbers_deinit(struct numbers *numbers);
/* The number of `index`, assigned at its first use. */
uint32_t numbers_get(struct numbers *numbers, uint32_t index);
