/* SPDX-License-Identifier: Apache-2.0
 *
 * Parks a process that has just exec'd, before anything of the program ran: runs it to the point
 * where the dynamic linker has mapped and relocated everything and called no constructor yet. There
 * it waits in a system call, like any blocked process, without a tracer. Only in a worker
 * (helper/worker.h).
 */
#pragma once

#include <sys/user.h>

#include "attach/proc/proc.h"

struct park {
	struct user_regs_struct regs; /* registers at that point */
	uint64_t signal_mask;
	raddr_t call; /* the dynamic linker's system call instruction in which it waits */
};

/* Seizes `child`, a child of heaptap that is about to exec. Until it is parked, it dies when this
 * worker does. Let it exec only then, and call park_at_start at once. HT_ERR_PERMISSION: the system
 * forbids it. HT_ERR_TARGET_GONE: it has ended. */
HT_MUST_CHECK
struct ht_err *park_seize(pid_t child);

/*
 * Waits for the exec, and runs the child to the point. From there on it dies with the process
 * `parent`, which started it. `ret_parked`: false if it ended by itself, without an exec or in the
 * dynamic linker. HT_ERR_REFUSED: the program cannot be parked (static, for another machine, with
 * rights from its file, another tool's breakpoint). After an error the caller must kill the child,
 * and nothing of the program has run.
 */
HT_MUST_CHECK
struct ht_err *park_at_start(pid_t child, pid_t parent, struct park *ret, bool *ret_parked);

/* Lets the program go on from that point, as if it had never waited. Calls `last(context)` when
 * nothing else is left to do. After an error, also of `last`, the child dies with the worker, and
 * nothing of the program has run. HT_ERR_TARGET_GONE: it had ended. */
HT_MUST_CHECK
struct ht_err *park_leave(
	pid_t child, const struct park *park, struct ht_err *(*last)(void *context), void *context);
