/* SPDX-License-Identifier: Apache-2.0
 *
 * A capture that other processes ask how it is, pause, mark and stop, through its socket
 * (attach/control/). The capture never waits for it, and goes on without.
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

/* What requests are answered from, and what they change. All borrowed. */
struct steered_capture {
	const struct session_options *options;
	const struct proc *proc;
	const char *comm;
	const struct times *times;
	const struct settle *settle;
	const struct memory_figures *memory;
	const bool *is_ending;		  /* the window is over; it ends when the heap was read */
	struct receiver *const *receiver; /* points to NULL until the agent is in the target */
	struct sink *sink;
	struct pausing *pausing;
	const struct overhead *overhead;
};

/* NULL: no memory; all functions accept that. */
struct steered *steered_create(void);

/* Calls `shown` once a second of the window with the answer to status. */
void steered_watch(struct steered *steered,
	void (*shown)(void *context, const struct control_reply *status), void *context);

/* Makes the socket, before anything of the target is touched, and after all processes were forked
 * that may outlive this one. `capture` is copied; what it points to must live until steered_close.
 * An error leaves a capture that cannot be steered. */
HT_MUST_CHECK
struct ht_err *steered_open(struct steered *steered, const struct steered_capture *capture);
/* What clients ask for is done now: to be called every few milliseconds, also while the process is
 * left and while names are looked up. */
void steered_serve(struct steered *steered);
/* Was the end of the window asked for, since the last call? */
HT_MUST_CHECK
bool steered_take_stop(struct steered *steered);
/* From here on requests that change something are refused. */
void steered_detaching(struct steered *steered);
/* The process was left, and names are looked up. */
void steered_naming(struct steered *steered);
/* Removes the socket: the process may be captured again from here on. */
void steered_close(struct steered *steered);

/* Answers those that wait for the end, after session_run, and frees it. `status`: what the capture
 * exits with; `message`: what there is to say, or "". */
void steered_end(struct steered *steered, unsigned status, const char *message);
