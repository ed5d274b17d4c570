/* SPDX-License-Identifier: Apache-2.0
 *
 * Places in a process's code at which it stops: breakpoint instructions in its private copy of a
 * page. Only for a process that runs alone in its memory and dies with the worker
 * (PTRACE_O_EXITKILL), which holds it whenever these functions are called.
 */
#pragma once

#include "attach/proc/proc.h"

#define POINTS_MAX 2u

struct points {
	size_t count;
	struct point {
		raddr_t addr;
		uint8_t byte; /* of the file, while the breakpoint is in its place */
		bool shared;  /* its page was the file's, before the breakpoint made a copy */
		uint64_t sum; /* of that page, without the breakpoint; 0: unknown */
	} point[POINTS_MAX];
};

/* Writes the breakpoints; the process, seized by this worker, is stopped at none of them.
 * HT_ERR_REFUSED: another tool has a breakpoint there. */
HT_MUST_CHECK
struct ht_err *points_set(
	const struct proc *proc, const raddr_t addr[], size_t count, struct points *ret);
/* Writes the breakpoints of `points` again, after points_clear. */
HT_MUST_CHECK
struct ht_err *points_set_again(const struct proc *proc, const struct points *points);
/* Puts all bytes back. */
HT_MUST_CHECK
struct ht_err *points_clear(const struct proc *proc, const struct points *points);
/* Runs the one instruction under breakpoint `i`, at which the process stands. */
HT_MUST_CHECK
struct ht_err *points_step_over(const struct proc *proc, const struct points *points, size_t i);
/* After points_clear: the page that only breakpoint `i` has made a copy. Without that copy
 * (MADV_DONTNEED) the process has the file's page again. 0: the process has changed the page itself
 * (text relocations, LD_AUDIT), or this is not known. */
raddr_t points_copied(const struct proc *proc, const struct points *points, size_t i);
