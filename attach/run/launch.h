/* SPDX-License-Identifier: Apache-2.0
 *
 * A command that heaptap starts as its child: everything that it inherits is what heaptap was
 * given, and nothing of it runs before the caller allows it.
 */
#pragma once

#include "attach/hold/follow.h"
#include "attach/hold/park.h"

struct launch {
	pid_t pid;
	int fd;		/* to the child, until it execs */
	bool ended;	/* it has ended, and `status` says how; there is no such process any more */
	int status;	/* of waitpid */
	int exec_errno; /* why it could not be run; 0: it could */
	bool failed;	/* it could not be let go */
	bool waits;	/* at its start, for launch_let_go */
	struct park park;
	enum follow_result followed; /* the program that it is about to become, or has become */
	struct follow_wait wait;
	unsigned traces; /* of its programs, finished */
	bool late;	 /* the program that is recorded had begun to run before it was tapped */
};

/*
 * Forks the child, which waits. To be called before heaptap changes anything of its own that
 * children inherit. It ends when heaptap does. `ret` is to be deinitialised also after an error.
 */
HT_MUST_CHECK
struct ht_err *launch_fork(char *const argv[], struct launch *ret);

/*
 * Has the child become the program `argv[0]`, found as execvp(3) does, and wait where nothing of
 * the program has run, but all its libraries are there. It waits as any process in pause(2) does,
 * and dies when heaptap does. Where it has ended instead `waits` is false: `exec_errno` says why it
 * is not run, or it ended by itself (a signal, a library that the dynamic linker does not find).
 * HT_ERR_REFUSED: a program that cannot be recorded from its start.
 */
HT_MUST_CHECK
struct ht_err *launch_exec(struct launch *launch);

/* The program runs, and from now on lives on without heaptap. After an error it is dead, and
 * nothing of it has run. HT_ERR_TARGET_GONE: it had ended by itself. */
HT_MUST_CHECK
struct ht_err *launch_let_go(struct launch *launch);

/* Has a thread of it that is about to exec make its new program wait, and keeps in `followed` what
 * has come of it. Whatever goes wrong, the process runs on. */
void launch_hold(struct launch *launch, const struct follow_ask *ask);
/* Lets the new program run, if it waits: sets `late` where it does not any more. */
void launch_leave(struct launch *launch);

/* Has a signal stopped it since it was last asked (Ctrl-Z, SIGSTOP)? */
bool launch_has_stopped(const struct launch *launch);
/* Collects it when it has ended: sets `ended`. */
void launch_look(struct launch *launch);
/* Kills it where it has not been let go, and collects it. */
void launch_deinit(struct launch *launch);
