/* SPDX-License-Identifier: Apache-2.0
 *
 * Up to when numbers of interpreted functions hold, by their generation.
 */
#pragma once

#include "format/record.h"

/* Zero-initialised is empty and valid. */
struct scripts {
	uint64_t *until_tsc; /* by generation */
	size_t capacity;
};

void scripts_deinit(struct scripts *scripts);
HT_MUST_CHECK
struct ht_err *scripts_take(struct scripts *scripts, const struct rec_scripts *rec);
/* Are numbers of this generation valid in an event of this time? */
bool scripts_hold(const struct scripts *scripts, uint16_t generation, uint64_t tsc);
