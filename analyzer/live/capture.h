/* SPDX-License-Identifier: Apache-2.0
 *
 * The capture of a process that serve or top shows: one that runs, or one that is started for it. A
 * process beside this program, the keeper, steers it: it keeps the rights that this needs when the
 * program has given them up, and ends the capture, if it started it, when the program is gone,
 * however that ended. The keeper is in a session of its own: no key of the terminal reaches it.
 */
#pragma once

#include <limits.h>
#include <sys/types.h>

#include "format/control.h"

/* How a capture is started where none runs. */
struct capture_start {
	const char *heaptap; /* the program */
	/* What it writes its trace to; -1: a new file in the working directory. */
	int trace;
	int log; /* what it prints to; -1: standard error */
	/* The capture ends when `trace` takes more of the disk than this; 0: no limit. */
	uint64_t trace_bytes_max;
};

struct capture {
	pid_t pid; /* of the recorded process */
	pid_t keeper;
	int socket;   /* to the keeper; readable: an answer, or the keeper has ended */
	bool started; /* by this program */
	char trace[sizeof(((struct control_reply *)0)->trace)]; /* its current path */
};

/* Finds heaptap beside this program, or where an installation puts it. */
HT_MUST_CHECK
struct ht_err *capture_find_program(char path[PATH_MAX]);
/* Joins the capture of `pid`, or starts one, and waits until its trace has a place. capture_close
 * also after an error. `start` is borrowed for the call; its descriptors stay the caller's. */
HT_MUST_CHECK
struct ht_err *capture_open(struct capture *capture, pid_t pid, const struct capture_start *start);
/* Ends the keeper, and a capture that this program started; waits for both. Returns the exit status
 * of a capture that was started, else 0. */
int capture_close(struct capture *capture);
/* Sends the keeper a request; answers come in order. False: the keeper is gone. */
bool capture_ask(const struct capture *capture, const struct control_request *request);
/* Takes a waiting answer; false: the keeper is gone. */
bool capture_answer(const struct capture *capture, struct control_reply *ret);
