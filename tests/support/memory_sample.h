/* SPDX-License-Identifier: Apache-2.0
 *
 * A sample of a process's memory with a single known figure.
 */
#pragma once

#include "format/memory.h"

static inline struct memory memory_sample(enum memory_kind kind, uint64_t number)
{
	struct memory sample = {0};
	memory_set(&sample, kind, number);
	return sample;
}
