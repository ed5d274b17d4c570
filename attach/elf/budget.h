/* SPDX-License-Identifier: Apache-2.0
 *
 * Limits for all modules of a process together. Each module has limits of its own, but a sparse
 * file costs its maker nothing and can be mapped thousands of times.
 */
#pragma once

#include "format/base.h"

/* For reads of files: once while modules are found, and once more for the calls in their code. An
 * unstripped browser has a gigabyte of symbols. */
#define BUDGET_FILES_BYTES (2ul << 30)

struct budget {
	uint64_t bytes; /* left to read */
	uint64_t steps; /* left for lookups */
	bool spent;	/* something was left out because `bytes` or `steps` did not suffice */
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

/* Takes `bytes`, or one step, off the budget. False: not enough is left; sets `spent`. A NULL
 * budget has no limit. */
static inline bool budget_bytes(struct budget *budget, uint64_t bytes)
{
	return !budget || budget_take(budget, &budget->bytes, bytes);
}

static inline bool budget_step(struct budget *budget)
{
	return !budget || budget_take(budget, &budget->steps, 1);
}
