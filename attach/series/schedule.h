/* SPDX-License-Identifier: Apache-2.0
 *
 * When the windows of a series begin. Times are of a clock that goes on while the machine sleeps
 * (CLOCK_BOOTTIME).
 */
#pragma once

#include "format/base.h"

#define SCHEDULE_OVER UINT64_MAX

struct schedule {
	uint64_t first_ns; /* begin of the first window */
	uint64_t every_ns; /* from there on; 0: a window follows the one before */
	uint64_t count;	   /* of windows; UINT64_MAX: no limit */
	uint64_t begun;	   /* so far */
	uint64_t last_ns;  /* when the last one should have begun */
};

/* When the next window begins, and how many before it were `*ret_missed` because the one before,
 * or the machine's sleep, took too long; those do not count. SCHEDULE_OVER: there is none. */
uint64_t schedule_next(struct schedule *schedule, uint64_t now_ns, uint64_t *ret_missed);
