/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides whether a word into our code on a stack is a real frame: unwinds a stopped thread with
 * libunwind-ptrace. Call it from the worker that holds the thread.
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
 * As judge_frames, for a thread that may have switched stacks in a hook by swapcontext, where one
 * of the stacks may be an array in a frame of the other. The thread is outside only if its frames
 * reach a thread's beginning, and no frame that is large enough to hold such a stack contains a
 * word into our code.
 */
HT_MUST_CHECK
struct ht_err *judge_whole(const struct proc *proc, pid_t tid,
	const struct stackscan_ranges *ranges, enum judge_result *ret);
