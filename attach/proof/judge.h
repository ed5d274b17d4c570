/* SPDX-License-Identifier: Apache-2.0
 *
 * The judge of doubtful hits: unwinds a stopped thread with libunwind-ptrace. To be called from the
 * worker that holds the thread.
 */
#pragma once

#include <sys/types.h>

#include "attach/proof/stackscan.h"

enum judge_result {
	JUDGE_OUTSIDE, /* unwound to the outermost frame, none in our code */
	JUDGE_INSIDE,
	JUDGE_UNDECIDED, /* could not unwind to the end */
};

HT_MUST_CHECK
struct ht_err *judge_frames(const struct proc *proc, pid_t tid,
	const struct stackscan_ranges *ranges, enum judge_result *ret);

/*
 * As judge_frames, of a thread that may have left a hook by swapcontext and be on, or have left it
 * on, a stack that is an array in some frame of its own one. It is outside only if its frames end
 * where threads begin, and none of them has room for such a stack with a word into our code in it.
 */
HT_MUST_CHECK
struct ht_err *judge_whole(const struct proc *proc, pid_t tid,
	const struct stackscan_ranges *ranges, enum judge_result *ret);
