/* SPDX-License-Identifier: Apache-2.0
 *
 * Function pointers to thunks in the registers of a stopped thread, general ones and vectors: a
 * compiler that stores two of them side by side loads both into one vector register, before a loop.
 */
#pragma once

#include <sys/types.h>

#include "attach/proof/stackscan.h"
#include "attach/thread/regs.h"

struct regwords {
	const struct stackscan_ranges *ranges;
	/* The function that the thunk is for; 0: it is for none. NULL: nothing is rewritten. */
	raddr_t (*real)(void *context, raddr_t entry);
	void *context;
};

struct regwords_report {
	size_t rewritten;
	size_t left; /* seen and not rewritten */
};

/* Rewrites those of `regs`, for the caller to set, and of the thread's vector registers. A thread
 * that is about to enter a thunk holds no pointer by that: where nothing is rewritten its PC does
 * not count. */
HT_MUST_CHECK
struct ht_err *regwords_look(const struct regwords *regwords, pid_t tid,
	struct user_regs_struct *regs, struct regwords_report *ret);
