/* SPDX-License-Identifier: Apache-2.0
 *
 * The blocks of a view by what their sites say: the thread that allocated, the function that it
 * called, the power of two of the size. Each block is in exactly one part, so that parts sum up to
 * the total.
 */
#pragma once

#include "analyzer/views/view.h"

enum parts_by { PARTS_THREAD, PARTS_FUNCTION, PARTS_SIZE };

/* As a key: stacks that the cube folded. Of these neither thread, function nor size is known. */
#define PARTS_FOLDED CUBE_OTHER

struct part {
	uint32_t key; /* index of the thread, hook, or size class; PARTS_FOLDED */
	struct sums sums;
};

/* Those with figures, in the order of their keys, folded stacks last; freed by the caller. */
HT_MUST_CHECK
struct ht_err *parts_find(
	const struct view *view, enum parts_by by, struct part **ret, size_t *ret_count);
/* Sorts them, those with most of `metric` first. */
void parts_sort(struct part *part, size_t count, enum metric metric);
/* The smallest and the largest size of a class. */
uint64_t parts_size_from(uint32_t size_class);
uint64_t parts_size_to(uint32_t size_class);
