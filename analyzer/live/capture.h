/* SPDX-License-Identifier: Apache-2.0
 *
 * The capture of the process that serve or top shows: a running capture, or a new one. A helper
 * process, the keeper, controls it. The keeper keeps the rights that this needs when the program
 * has given them up. When the program has ended for any reason, the keeper ends a capture that it
 * has started. The keeper has its own session, so Ctrl-C in the terminal does not reach it.
 */
#pragma once

#include <limits.h>
#include <sys/types.h>

#include "format/control.h"

/* How to start a capture if none runs. */
struct capture_start {
	const char *heaptap; /* the program */
	/* Descriptor for the capture's trace; -1: a new file in the working directory. */
	int trace;
	int log; /* descriptor for the capture's messages; -1: standard error */
	/* The capture ends when `trace` takes more bytes of the disk than this, which is checked
	 * once a second; 0: no limit. */
	uint64_t trace_bytes_max;
};

struct capture {
	pid_t pid; /* of the recorded process */
	pid_t keeper;
	int socket;   /* connection to the keeper; readable if an answer is there or the keeper has
			 ended */
	bool started; /* this program started the capture */
	char trace[sizeof(((struct control_reply *)0)->trace)]; /* its current path */
};

/* Finds heaptap in the directory of this program, or in that of an installation. HT_ERR_REFUSED if
 * it is in neither. */
HT_MUST_CHECK
struct ht_err *capture_find_program(char path[PATH_MAX]);
/* Joins the capture of `pid`, or starts one, and waits until it reports the path of its trace, for
 * a new capture at most 120 s. HT_ERR_REFUSED: it reports none, or writes to standard output. Call
 * capture_close also after an error. `start` is borrowed for the call; its descriptors stay the
 * caller's. */
HT_MUST_CHECK
struct ht_err *capture_open(struct capture *capture, pid_t pid, const struct capture_start *start);
/* Ends the keeper, and a capture that this program started; waits for both. Returns the exit status
 * of a capture that this program started; otherwise 0. */
int capture_close(struct capture *capture);
/* Sends the keeper a request without waiting; answers come in order. False: the keeper has ended,
 * or too many requests wait. */
bool capture_ask(const struct capture *capture, const struct control_request *request);
/* Takes the next answer, and waits for it. False: the keeper has ended. */
bool capture_answer(const struct capture *capture, struct control_reply *ret);
