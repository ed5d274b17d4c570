/* SPDX-License-Identifier: Apache-2.0
 *
 * A capture that other processes ask how it is, pause, mark and stop, through its socket
 * (attach/control/). The capture never waits for it, and goes on without.
 */
#pragma once

#include <stdbool.h>

#include "format/control.h"

struct session;
struct steered;

/* NULL: no memory; all functions accept that. */
struct steered *steered_create(void);

/* Calls `shown` once a second of the window with the answer to status. */
void steered_watch(struct steered *steered,
	void (*shown)(void *context, const struct control_reply *status), void *context);

/* Makes the socket, before anything of the target is touched, and after all processes were forked
 * that may outlive this one. What is wrong with it goes into the report's control_problem. */
void steered_open(struct session *s);
/* What clients ask for is done now: to be called every few milliseconds, also while the process is
 * left and while names are looked up. */
void steered_serve(struct session *s);
/* Was the end of the window asked for, since the last call? */
HT_MUST_CHECK
bool steered_take_stop(struct session *s);
/* From here on requests that change something are refused. */
void steered_detaching(struct session *s);
/* The process was left, and names are looked up. */
void steered_naming(struct session *s);
/* Removes the socket: the process may be captured again from here on. */
void steered_close(struct session *s);

/* Answers those that wait for the end, after session_run, and frees it. `status`: what the capture
 * exits with; `message`: what there is to say, or "". */
void steered_end(struct steered *steered, unsigned status, const char *message);
