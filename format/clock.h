/* SPDX-License-Identifier: Apache-2.0
 *
 * Time in nanoseconds: CLOCK_MONOTONIC, unless another clock is named.
 */
#pragma once

#include <time.h>

#include "format/base.h"

#define CLOCK_NS_PER_S	1000000000ull
#define CLOCK_NS_PER_MS 1000000ull

static inline uint64_t clock_read_ns(clockid_t id)
{
	struct timespec now;
	clock_gettime(id, &now);
	return (uint64_t)now.tv_sec * CLOCK_NS_PER_S + (uint64_t)now.tv_nsec;
}

static inline uint64_t clock_mono_ns(void)
{
	return clock_read_ns(CLOCK_MONOTONIC);
}
