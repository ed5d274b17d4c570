/* SPDX-License-Identifier: Apache-2.0
 *
 * The clock of this directory: CLOCK_MONOTONIC in nanoseconds.
 */
#pragma once

#include <stdint.h>
#include <time.h>

static inline uint64_t now_mono_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
