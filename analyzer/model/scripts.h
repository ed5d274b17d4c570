/* SPDX-License-Identifier: Apache-2.0
 *
 * Until when numbers of interpreted functions are valid, by their generation.
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
/* Whether numbers of this generation are valid in an event of this time. */
bool scripts_hold(const struct scripts *scripts, uint16_t generation, uint64_t tsc);
