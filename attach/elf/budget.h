/* SPDX-License-Identifier: Apache-2.0
 *
 * What may be read and tried for all modules of a process together. Each module has bounds of its
 * own, but one sparse file costs its maker nothing, and can be mapped thousands of times.
 */
#pragma once

#include "format/base.h"

/* Of files, as long as modules are looked for, and again for the calls in their code. An unstripped
 * browser has a gigabyte of symbols. */
#define BUDGET_FILES_BYTES (2ul << 30)

struct budget {
	uint64_t bytes; /* that may still be read */
	uint64_t steps; /* of lookups */
	bool spent;	/* something was left out for want of one of them */
};

static inline bool budget_take(struct budget *budget, uint64_t *left, uint64_t amount)
{
	if (amount > *left) {
		budget->spent = true;
		return false;
	}
	*left -= amount;
	return true;
}

/* False: not any more. NULL: there is no such bound. */
static inline bool budget_bytes(struct budget *budget, uint64_t bytes)
{
	return !budget || budget_take(budget, &budget->bytes, bytes);
}

static inline bool budget_step(struct budget *budget)
{
	return !budget || budget_take(budget, &budget->steps, 1);
}
