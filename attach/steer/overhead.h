/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides when a capture pauses by itself, so that recording costs the target no more than a share
 * of its CPU time (--max-overhead; the measure is in attach/control/DESIGN.md). Knows numbers only.
 */
#pragma once

#include "format/base.h"

/* What a recorded call costs its thread: stack, event and thread record. 16 to 72 ns were measured
 * (attach/LIMITS.md). */
#define OVERHEAD_EVENT_NS 60u
#define OVERHEAD_WHOLE	  1000000u /* of all CPU time; shares are in millionths */
#define OVERHEAD_PAUSES	  3000u	   /* most of one capture; then the last one lasts */

/* Counters of the capture at a time. */
struct overhead_look {
	uint64_t now_ns;
	uint64_t events; /* recorded so far */
	uint64_t cpu_ns; /* CPU time of all threads of the target */
};

struct overhead {
	uint64_t limit_ppm; /* 0: no limit; the functions then do nothing */
	struct overhead_look start, last;
	int64_t balance_ns; /* of what recording may cost, less what it cost */
	int64_t most_ns;    /* of the balance: what is saved up at most */
	uint64_t since_ns;  /* of the present state */
	uint64_t pauses;
	uint64_t ppm; /* cost in the last second or so */
	bool is_paused;
};

/* Is it time for another look? */
bool overhead_is_due(const struct overhead *overhead, uint64_t now_ns);
/*
 * Should recording be paused from now on? The CPU time that the target uses adds to a balance, each
 * recorded call takes from it. A pause begins when the balance is used up, and ends when half of
 * what can be saved up is there again. States last longer the longer the capture runs, so that
 * pauses stay few.
 */
bool overhead_judge(struct overhead *overhead, const struct overhead_look *look);
/* The share over the whole capture, in millionths. */
uint64_t overhead_mean_ppm(const struct overhead *overhead);
