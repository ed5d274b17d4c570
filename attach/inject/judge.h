/* SPDX-License-Identifier: Apache-2.0
 *
 * The judge of doubtful hits: unwinds a stopped thread with libunwind-ptrace. To be called from the
 * worker that holds the thread.
 */
#pragma once

#include <sys/types.h>

#include "attach/inject/stackscan.h"

enum judge_result {
	JUDGE_OUTSIDE, /* unwound to the outermost frame, none in our code */
	JUDGE_INSIDE,
	JUDGE_UNDECIDED, /* could not unwind to the end */
};

enum judge_result judge_frames(pid_t tid, const struct stackscan_ranges *ranges);
