/* SPDX-License-Identifier: Apache-2.0
 *
 * A command that heaptap starts as its child. The command inherits what heaptap has inherited, and
 * none of its instructions run before the caller allows it.
 */
#pragma once

#include "attach/hold/follow.h"
#include "attach/hold/park.h"

struct launch {
	pid_t pid;
	int fd;		/* socket to the child, until the child execs; -1: closed */
	bool ended;	/* it has ended and was reaped; `status` says how it ended */
	int status;	/* of waitpid(2) */
	int exec_errno; /* error of errno.h for which it could not be run; 0: none */
	bool failed;	/* launch_let_go has failed */
	bool waits;	/* it waits at its start for launch_let_go */
	struct park park;
	enum follow_result followed; /* of its last exec (launch_hold), or of its birth */
	struct follow_wait wait;
	unsigned traces; /* finished traces of its programs */
	bool late;	 /* the recorded program had begun to run before it was hooked */
};

/* Forks the child, which waits for launch_exec, and ends if heaptap ends before. Call it before
 * heaptap changes anything of its own that children inherit. Call launch_deinit also after an
 * error. */
HT_MUST_CHECK
struct ht_err *launch_fork(char *const argv[], struct launch *ret);

/*
 * Makes the child exec the program `argv[0]`, found as execvp(3) does, and wait before the
 * program's first instruction, when all its libraries are loaded. The child waits in pause(2), and
 * dies when heaptap does. If the child has ended instead, `waits` is false: `exec_errno` says why
 * the program cannot be run; if it is 0, the child ended by itself (by a signal, or since the
 * dynamic linker did not find a library). HT_ERR_REFUSED: a program that cannot be recorded from
 * its start.
 */
HT_MUST_CHECK
struct ht_err *launch_exec(struct launch *launch);

/* Lets the program run; from then on it no longer dies with heaptap. After an error it is dead, and
 * none of its instructions have run. HT_ERR_TARGET_GONE: it had ended by itself. */
HT_MUST_CHECK
struct ht_err *launch_let_go(struct launch *launch);

/* For a thread of the command that waits before an exec: lets it exec, makes the new program wait,
 * and sets `followed` to the result. If that fails, the process runs on. */
void launch_hold(struct launch *launch, const struct follow_ask *ask);
/* Lets the new program run, if `followed` says that it waits. Sets `late` if it was running
 * already. */
void launch_leave(struct launch *launch);

/* Has a signal (Ctrl-Z, SIGSTOP) stopped the command since the last call? */
bool launch_has_stopped(const struct launch *launch);
/* Reaps the command if it has ended: sets `ended` and `status`. */
void launch_look(struct launch *launch);
/* Kills and reaps the command if it was not let go; closes the socket. */
void launch_deinit(struct launch *launch);
