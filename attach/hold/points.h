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
		uint8_t byte; /* the byte of the file that the breakpoint replaces */
		bool shared;  /* before the breakpoint, the page was the file's, not a copy */
		uint64_t sum; /* checksum of that page without the breakpoint; 0: unknown */
	} point[POINTS_MAX];
};

/* Writes breakpoints at `count` addresses, at most POINTS_MAX. The process must be seized by this
 * worker, and stopped at none of these places. HT_ERR_REFUSED: another tool has a breakpoint there;
 * nothing was written. */
HT_MUST_CHECK
struct ht_err *points_set(
	const struct proc *proc, const raddr_t addr[], size_t count, struct points *ret);
/* Writes the breakpoints of `points` again, after points_clear. */
HT_MUST_CHECK
struct ht_err *points_set_again(const struct proc *proc, const struct points *points);
/* Restores all bytes. */
HT_MUST_CHECK
struct ht_err *points_clear(const struct proc *proc, const struct points *points);
/* Runs the one instruction under breakpoint `i`, at which the process is stopped. */
HT_MUST_CHECK
struct ht_err *points_step_over(const struct proc *proc, const struct points *points, size_t i);
/* Call after points_clear. Returns the address of the page that only breakpoint `i` has made a
 * copy: when it is dropped (MADV_DONTNEED) the file's page is mapped again. 0: the process has
 * changed the page itself (text relocations, LD_AUDIT), or that is unknown. */
raddr_t points_copied(const struct proc *proc, const struct points *points, size_t i);
