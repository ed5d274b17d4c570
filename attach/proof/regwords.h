/* SPDX-License-Identifier: Apache-2.0
 *
 * Function pointers to thunks in the registers of a stopped thread. Vector registers count: a
 * compiler that stores two pointers side by side may load both into one vector register before a
 * loop.
 */
#pragma once

#include <sys/types.h>

#include "attach/proof/stackscan.h"
#include "attach/thread/regs.h"

struct regwords {
	const struct stackscan_ranges *ranges;
	/* Returns the function that the thunk forwards to; 0: `entry` is no thunk. NULL: nothing is
	 * rewritten. */
	raddr_t (*real)(void *context, raddr_t entry);
	void *context;
};

struct regwords_report {
	size_t rewritten;
	size_t left; /* seen and not rewritten */
};

/* Rewrites the pointers in `regs`, which the caller writes back to the thread, and in the thread's
 * vector registers, which this function writes back. The PC of a thread that is about to enter a
 * thunk is no pointer: it counts only when words are rewritten. */
HT_MUST_CHECK
struct ht_err *regwords_look(const struct regwords *regwords, pid_t tid,
	struct user_regs_struct *regs, struct regwords_report *ret);
