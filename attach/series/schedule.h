/* SPDX-License-Identifier: Apache-2.0
 *
 * Computes when the windows of a series begin. Times are of a clock that goes on while the machine
 * sleeps (CLOCK_BOOTTIME).
 */
#pragma once

#include "format/base.h"

#define SCHEDULE_OVER UINT64_MAX

struct schedule {
	uint64_t first_ns; /* when the first window begins */
	uint64_t every_ns; /* from one window's begin to the next; 0: a window begins when the one
			      before is over */
	uint64_t count;	   /* number of windows; UINT64_MAX: no limit */
	uint64_t begun;	   /* windows so far */
	uint64_t last_ns;  /* when the last of these should have begun */
};

/* Returns when the next window begins, perhaps in the past, and counts it; SCHEDULE_OVER: there is
 * none. `*ret_missed`: how many windows were left out because the window before, or the machine's
 * sleep, took too long; `count` does not count them. */
uint64_t schedule_next(struct schedule *schedule, uint64_t now_ns, uint64_t *ret_missed);
