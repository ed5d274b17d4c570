/* SPDX-License-Identifier: Apache-2.0
 *
 * From a program to the one that it becomes by exec: held while it execs, so that the new one is
 * met where its dynamic linker has relocated everything and called no constructor, and made to wait
 * there in a system call that ends by itself. If a process of heaptap dies meanwhile, the target
 * goes on undisturbed: it is traced, but nothing in it is changed. Only in a worker
 * (helper/worker.h).
 */
#pragma once

#include <sys/ptrace.h>
#include <sys/user.h>

#include "attach/proc/proc.h"

/*
 * What ends is let go as it begins to: what has ended, and is traced still, does not exist for its
 * parent's waitid(WNOHANG), which a pidfd, readable by then, has told to ask.
 */
#define FOLLOW_OPTIONS (PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT | PTRACE_O_TRACESYSGOOD)

/* So long it waits for us. */
#define FOLLOW_WAIT_MS 10001

/* A thread that waits in a guard of the agent, since it is about to exec. */
struct follow_ask {
	const struct proc *proc;
	pid_t tid;
	raddr_t code_lo, code_hi; /* of the agent */
	uint64_t *asks;		  /* the words of abi_control */
	uint64_t *held;
};

struct follow_wait {
	struct user_regs_struct regs; /* of the call that it makes when it is let go */
};

enum follow_result {
	FOLLOW_NOTHING, /* it has not become another program, or heaptap did not see it */
	FOLLOW_BEGAN,	/* it has, and runs */
	FOLLOW_WAITS,	/* at its start, for FOLLOW_WAIT_MS at most */
};

/* Stops the thread, if it still waits in its guard, and traces it with these options: true in
 * `ret`. It need not wait any more then. */
HT_MUST_CHECK
struct ht_err *follow_take(const struct follow_ask *ask, long options, bool *ret);

/* It goes on, and waits for no other answer. */
void follow_answer(const struct follow_ask *ask);

/* From the stop at the exec of process `pid`, the only one that is traced, to where its new program
 * is to wait, and makes it wait there: true in `ret_waits`. It is still stopped, if it lives. */
HT_MUST_CHECK
struct ht_err *follow_meet(pid_t pid, struct follow_wait *ret_wait, bool *ret_waits);

/* Holds the thread and lets it exec. An error leaves it running like FOLLOW_NOTHING. */
HT_MUST_CHECK
struct ht_err *follow_exec(
	const struct follow_ask *ask, struct follow_wait *ret_wait, enum follow_result *ret);

/* Lets it go on; false in `ret_waited`: it did so before. */
HT_MUST_CHECK
struct ht_err *follow_leave(pid_t pid, const struct follow_wait *wait, bool *ret_waited);
