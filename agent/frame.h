/* SPDX-License-Identifier: Apache-2.0
 *
 * The frame of a hook.
 */
#pragma once

#include "format/base.h"

/* The frame of a hook, at __builtin_frame_address(0). */
struct thread_frame {
	uint64_t caller_fp;	 /* rbp of the hook's caller */
	uint64_t caller_pc;	 /* return address */
	uint64_t caller_stack[]; /* its address is the caller's rsp after the return */
};
