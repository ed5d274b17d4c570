/* SPDX-License-Identifier: Apache-2.0
 *
 * The blocks of a view by thread, by allocation function, or by the power of two of their size.
 * Each block is in exactly one part, so parts add up to the total.
 */
#pragma once

#include "analyzer/views/view.h"

enum parts_by { PARTS_THREAD, PARTS_FUNCTION, PARTS_SIZE };

/* Key of stacks that the cube folded (cube.h): their threads, functions and sizes are unknown. */
#define PARTS_FOLDED CUBE_OTHER

struct part {
	uint32_t key; /* index of the thread, hook, or size class; PARTS_FOLDED */
	struct sums sums;
};

/* The parts with figures, sorted by key, folded stacks last; freed by the caller. */
HT_MUST_CHECK
struct ht_err *parts_find(
	const struct view *view, enum parts_by by, struct part **ret, size_t *ret_count);
/* Sorts parts by `metric`, largest first. */
void parts_sort(struct part *part, size_t count, enum metric metric);
/* The smallest and the largest size of a class. */
uint64_t parts_size_from(uint32_t size_class);
uint64_t parts_size_to(uint32_t size_class);
