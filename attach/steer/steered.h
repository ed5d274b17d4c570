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

/* The parts of a capture that answer requests, and that requests change. All borrowed. */
struct steered_capture {
	const struct session_options *options;
	const struct proc *proc;
	const char *comm;
	const struct times *times;
	const struct settle *settle;
	const struct memory_figures *memory;
	const bool *is_ending;		  /* the window is over, but for a reading of the heap */
	struct receiver *const *receiver; /* points to NULL until the agent is in the target */
	struct sink *sink;
	struct pausing *pausing;
	const struct overhead *overhead;
};

/* NULL: no memory; all functions accept NULL. */
struct steered *steered_create(void);

/* Calls `shown` with the answer to a status request, once a second while the window is open. */
void steered_watch(struct steered *steered,
	void (*shown)(void *context, const struct control_reply *status), void *context);

/* Makes the socket. Call it before the target is touched, and after all processes were forked that
 * may outlive this one. `capture` is copied; what it points to must live until steered_close. After
 * an error the capture cannot be steered. */
HT_MUST_CHECK
struct ht_err *steered_open(struct steered *steered, const struct steered_capture *capture);
/* Carries out the requests of clients. Call it every few milliseconds, also during the detach and
 * while names are looked up. */
void steered_serve(struct steered *steered);
/* Has a client asked to end the window, since the last call? */
HT_MUST_CHECK
bool steered_take_stop(struct steered *steered);
/* From here on requests that change something are refused. */
void steered_detaching(struct steered *steered);
/* From here on the process is left, and names are looked up: status says so. */
void steered_naming(struct steered *steered);
/* Removes the socket: the process may be captured again from here on. */
void steered_close(struct steered *steered);

/* Call after session_run: answers the clients that wait for the end, and frees `steered`. `status`:
 * the exit status of the capture; `message`: an error or warning, or "". */
void steered_end(struct steered *steered, unsigned status, const char *message);
