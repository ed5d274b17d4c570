/* SPDX-License-Identifier: Apache-2.0
 *
 * The capture of a process that a server shows: one that runs, or one that the server starts. A
 * process beside the server, the keeper, steers it: it keeps the rights that this needs when the
 * server has given them up, and ends the capture, if the server started it, when the server is
 * gone, however it ended.
 */
#pragma once

#include <sys/types.h>

#include "format/control.h"

struct capture {
	pid_t pid; /* of the recorded process */
	pid_t keeper;
	int socket;   /* to the keeper; readable: an answer, or the keeper has ended */
	bool started; /* by this server */
	char trace[sizeof(((struct control_reply *)0)->trace)]; /* its current path */
};

/* Joins the capture of `pid`, or starts one with the program `heaptap`, and waits until its trace
 * has a place. capture_close also after an error. */
HT_MUST_CHECK
struct ht_err *capture_open(struct capture *capture, pid_t pid, const char *heaptap);
/* Ends the keeper, and a capture that this server started; waits for both. */
void capture_close(struct capture *capture);
/* Sends the keeper a request; answers come in order. False: the keeper is gone. */
bool capture_ask(const struct capture *capture, const struct control_request *request);
/* Takes a waiting answer; false: the keeper is gone. */
bool capture_answer(const struct capture *capture, struct control_reply *ret);
