/* SPDX-License-Identifier: Apache-2.0
 *
 * Lets other processes query, pause, mark and stop a capture, through its socket (attach/control/).
 * The capture never waits for a client, and works without the socket.
 */
#pragma once

#include "attach/steer/options.h"
#include "attach/trace/memory.h"
#include "attach/steer/overhead.h"
#include "attach/steer/pausing.h"
#include "attach/steer/settle.h"
#include "attach/steer/times.h"
#include "attach/daemon/receiver.h"
#include "format/control.h"

/* The parts of a capture that the answers describe, or that requests change. All borrowed. */
struct steered_capture {
	const struct session_options *options;
	const struct proc *proc;
	const char *comm;
	const struct times *times;
	const struct settle *settle;
	const struct memory_figures *memory;
	const bool *is_ending; /* the window is over, except for a last reading of the heap or the
				  settle time */
	struct receiver *const *receiver; /* points to NULL until the agent is in the target */
	struct sink *sink;
	struct pausing *pausing;
	const struct overhead *overhead;
};

/* NULL: no memory; all functions accept NULL. */
struct steered *steered_create(void);

/* Calls `shown` with the answer to a status request, once a second, from steered_serve. */
void steered_watch(struct steered *steered,
	void (*shown)(void *context, const struct control_reply *status), void *context);

/* Makes the socket, and takes the signals of usersignals.h. Call it before the target is touched,
 * and after all processes were forked that may outlive this one. `capture` is copied; what it
 * points to must live until steered_close. After an error clients cannot reach the capture; the
 * other functions still work. */
HT_MUST_CHECK
struct ht_err *steered_open(struct steered *steered, const struct steered_capture *capture);
/* Carries out the requests of clients. Call it every few milliseconds, also during the detach and
 * while names are looked up. */
void steered_serve(struct steered *steered);
/* Has a client asked to end the window since the last call? */
HT_MUST_CHECK
bool steered_take_stop(struct steered *steered);
/* From here on all requests but status and stop are refused. */
void steered_detaching(struct steered *steered);
/* The detach is over and names are looked up: from here on status says so. */
void steered_naming(struct steered *steered);
/* Answers requests that have come, and removes the socket; clients that wait for the end stay
 * connected. From here on another heaptap may record the process. */
void steered_close(struct steered *steered);

/* Call after session_run: answers the clients that wait for the end, and frees `steered`. `status`:
 * the exit status of the capture; `message`: an error or warning, or "". */
void steered_end(struct steered *steered, unsigned status, const char *message);
