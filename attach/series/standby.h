/* SPDX-License-Identifier: Apache-2.0
 *
 * Shows other processes a heaptap that waits to record a process: `heaptap list` and `status` show
 * what it waits for, `stop` ends the wait. Uses a socket like that of a capture (attach/control/),
 * under another name, since another capture of the process may run meanwhile.
 */
#pragma once

#include <poll.h>

#include "attach/control/place.h"
#include "attach/control/server.h"
#include "attach/proc/proc.h"

/* The next window, and what heaptap waits for. */
struct standby_wait {
	uint64_t window, windows; /* its number, from 1; the number of all windows, 0: no limit */
	uint64_t
		next_boot_ns; /* it begins not before this time (CLOCK_BOOTTIME); 0: no such time */
	const char *waits_for; /* "its RSS is 60.0 MiB"; "": nothing else. Copied */
};

struct standby {
	struct place place;
	struct server *server; /* NULL: clients cannot see the wait */
	struct control_reply now;
	uint64_t since_ns, next_boot_ns;
	bool is_stopped;
	bool rests; /* the listener is not polled before the next pass */
};

#define STANDBY_NONE ((struct standby){.place = PLACE_NONE})

/* Makes the socket. `proc`: the process that is to be recorded; heaptap's own while there is none.
 * After an error clients cannot see the wait; all other functions accept such a `standby`.
 * `standby` must stay where it is until standby_end. */
HT_MUST_CHECK
struct ht_err *standby_open(
	struct standby *standby, const struct proc *proc, const struct standby_wait *wait);
/* Call it when the window's time has come and heaptap waits for the trigger: clients see no time
 * any more. */
void standby_waits_on(struct standby *standby);
/* Sets `polled` to the descriptor that a wait must poll beside its own. Returns the longest time
 * for that poll in milliseconds; -1: no limit. */
int standby_poll(const struct standby *standby, struct pollfd *polled);
/* Call it after the poll: answers clients. True: a client has asked to end the wait. After a
 * connection the listener is not polled for 5 ms: if no connection can be accepted, for lack of
 * descriptors, the listener stays readable, and the wait must not spin. */
HT_MUST_CHECK
bool standby_serve(struct standby *standby, const struct pollfd *polled);
/* Answers clients that have come meanwhile, and removes the socket. True: a client has asked to end
 * the wait; call standby_end, for which the clients that wait stay connected. False: all
 * connections are closed. */
HT_MUST_CHECK
bool standby_close(struct standby *standby);
/* Answers the clients that wait for the end, with the exit status `status` and `message`, and frees
 * the server. Does nothing if standby_close has returned false. */
void standby_end(struct standby *standby, unsigned status, const char *message);
