/* SPDX-License-Identifier: Apache-2.0
 *
 * A process that has just become a program, before anything of the program ran: it is brought to
 * the point where the dynamic linker has mapped and relocated everything and called no constructor
 * yet, and waits there in a system call, as any blocked process, without a tracer. Only in a worker
 * (helper/worker.h).
 */
#pragma once

#include <sys/user.h>

#include "attach/proc/proc.h"

struct park {
	struct user_regs_struct regs; /* at that point */
	uint64_t signal_mask;
	raddr_t call; /* where it waits: a system call instruction of the dynamic linker's */
};

/*
 * Seizes `child`, a child of `parent` that is about to exec; it dies when this worker does, until
 * it is parked. To be followed by park_at_start as soon as it may exec. HT_ERR_TARGET_GONE: it has
 * ended.
 */
HT_MUST_CHECK
struct ht_err *park_seize(pid_t child);

/*
 * Waits for its exec, and brings it to the point. From there on it dies with the process `parent`,
 * which started it. False in `ret_parked`: it has ended by itself, without a program, or in the
 * dynamic linker. HT_ERR_REFUSED: the program has no such point (static), or is none of ours; it is
 * then to be killed, and nothing of it has run.
 */
HT_MUST_CHECK
struct ht_err *park_at_start(pid_t child, pid_t parent, struct park *ret, bool *ret_parked);

/*
 * Lets it go on from that point, as if it had never waited. Calls `last(context)` when nothing is
 * left to be done but that; after an error, from there too, it dies with the worker, and nothing of
 * it has run. HT_ERR_TARGET_GONE: it had ended.
 */
HT_MUST_CHECK
struct ht_err *park_leave(
	pid_t child, const struct park *park, struct ht_err *(*last)(void *context), void *context);
