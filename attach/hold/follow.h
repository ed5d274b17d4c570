/* SPDX-License-Identifier: Apache-2.0
 *
 * Follows a thread through an exec to its new program, which is held when its dynamic linker has
 * relocated everything and called no constructor, and then waits in a system call that ends by
 * itself. If a process of heaptap dies meanwhile, the target goes on: it is traced until then, but
 * nothing in it is changed. Only in a worker (helper/worker.h).
 */
#pragma once

#include <sys/ptrace.h>
#include <sys/user.h>

#include "attach/proc/proc.h"

/* PTRACE_O_TRACEEXIT: a process is released when it begins to end. If it were still traced when it
 * has ended, waitid(WNOHANG) of its parent would not find it, although the parent's pidfd for it is
 * readable by then. */
#define FOLLOW_OPTIONS (PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT | PTRACE_O_TRACESYSGOOD)

/* how long the new program waits for heaptap, in ms */
#define FOLLOW_WAIT_MS 10001

/* A thread that waits in a guard of the agent before an exec, or before it makes a child. */
struct follow_ask {
	const struct proc *proc;
	pid_t tid;
	raddr_t code_lo, code_hi; /* the range of the agent's code */
	uint64_t *asks; /* words of abi_control in the image: the thread that asks to be held, the
			   one that is held */
	uint64_t *held;
};

struct follow_wait {
	struct user_regs_struct regs; /* of the call that it makes when it is released */
};

enum follow_result {
	FOLLOW_NOTHING, /* no exec, or heaptap did not see it */
	FOLLOW_BEGAN,	/* it has exec'd, and runs */
	FOLLOW_WAITS,	/* it has exec'd, and waits at its start, at most FOLLOW_WAIT_MS */
};

/* Stops the thread, if it still waits in its guard and has no seccomp filter, and traces it with
 * these options: `ret` is true. From then on the thread need not wait any more. Otherwise the
 * thread runs, untraced. */
HT_MUST_CHECK
struct ht_err *follow_take(const struct follow_ask *ask, long options, bool *ret);

/* Ends the wait of the thread in its guard. */
void follow_answer(const struct follow_ask *ask);

/* Call at the exec stop of process `pid`, the only one that this worker traces. Runs the process to
 * where its new program is to wait, and makes it wait there: `ret_waits` is true. The process is
 * still stopped then, if it lives. */
HT_MUST_CHECK
struct ht_err *follow_meet(pid_t pid, struct follow_wait *ret_wait, bool *ret_waits);

/* Holds the thread and lets it exec. After an error the thread runs, as after FOLLOW_NOTHING. */
HT_MUST_CHECK
struct ht_err *follow_exec(
	const struct follow_ask *ask, struct follow_wait *ret_wait, enum follow_result *ret);

/* Releases the program from its wait. `ret_waited`: false if its wait had ended before. */
HT_MUST_CHECK
struct ht_err *follow_leave(pid_t pid, const struct follow_wait *wait, bool *ret_waited);
