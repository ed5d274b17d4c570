/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides when a capture pauses by itself, so that recording costs the target no more than a share
 * of its CPU time (--max-overhead; the measure is in attach/control/DESIGN.md). Works on the
 * numbers that it is given, and reads neither target nor clock.
 */
#pragma once

#include "format/base.h"

/* The cost of a recorded call for its thread: stack, event and thread record. Measured: 16 to 72 ns
 * (attach/LIMITS.md). */
#define OVERHEAD_EVENT_NS 60u
#define OVERHEAD_WHOLE	  1000000u /* of all CPU time; shares are in millionths */
#define OVERHEAD_PAUSES	  3000u	   /* most pauses of one capture; the last one does not end */

/* Counters of the capture at a time. */
struct overhead_look {
	uint64_t now_ns;
	uint64_t events; /* recorded so far */
	uint64_t cpu_ns; /* CPU time of all threads of the target since its start */
};

struct overhead {
	uint64_t limit_ppm; /* 0: no limit; the functions then do nothing */
	struct overhead_look start, last;
	int64_t balance_ns; /* what recording may still cost; negative: a debt */
	int64_t most_ns;    /* the maximum of the balance */
	uint64_t since_ns;  /* when the current state began */
	uint64_t pauses;
	uint64_t ppm; /* cost as a share of CPU time, in millionths: a moving mean over eight looks
			 (0.8 s) */
	bool is_paused;
};

/* Is it time for another look? */
bool overhead_is_due(const struct overhead *overhead, uint64_t now_ns);
/*
 * Should recording be paused from now on? CPU time of the target adds to a balance, and each
 * recorded call takes from it. A pause begins when the balance is used up, and ends when half of
 * the maximum is there again. States last longer the longer the capture runs, so that pauses stay
 * few.
 */
bool overhead_judge(struct overhead *overhead, const struct overhead_look *look);
/* The cost as a share of CPU time over the whole capture, in millionths. */
uint64_t overhead_mean_ppm(const struct overhead *overhead);
