/* SPDX-License-Identifier: Apache-2.0
 *
 * A heaptap that waits to record a process, as others see it: `heaptap list` and `status` show what
 * it waits for, `stop` ends it. By the same socket as a capture (attach/control/), under a name of
 * its own, for another capture may run meanwhile.
 */
#pragma once

#include <poll.h>

#include "attach/control/place.h"
#include "attach/control/server.h"
#include "attach/proc/proc.h"

/* The next window. */
struct standby_wait {
	uint64_t window, windows; /* its number, from 1; of all, 0: no limit */
	uint64_t next_boot_ns;	  /* CLOCK_BOOTTIME: not before then; 0: no such time */
	const char *waits_for;	  /* "its RSS is 60.0 MiB"; "": nothing else. Copied */
};

struct standby {
	struct place place;
	struct server *server; /* NULL: it cannot be asked */
	struct control_reply now;
	uint64_t since_ns, next_boot_ns;
	bool is_stopped;
	bool rests; /* until the next pass */
};

#define STANDBY_NONE ((struct standby){.place = PLACE_NONE})

/* Makes the socket. `proc`: the process that is to be recorded; or this one, until there is one. An
 * error leaves a wait that clients cannot see; all other functions accept that. */
HT_MUST_CHECK
struct ht_err *standby_open(
	struct standby *standby, const struct proc *proc, const struct standby_wait *wait);
/* The window's time has come, and heaptap waits for the trigger: clients see no time any more. */
void standby_waits_on(struct standby *standby);
/* Fills in what a wait polls beside its own, and returns for how many ms at most; -1: any time. */
int standby_poll(const struct standby *standby, struct pollfd *polled);
/* To be called after poll. True: a client has asked to end the wait. Waits never spin: while no
 * connection can be accepted, for want of descriptors, the listener is polled 200 times a second.
 */
HT_MUST_CHECK
bool standby_serve(struct standby *standby, const struct pollfd *polled);
/* Removes the socket; clients that wait for the end stay. Takes those that have come meanwhile:
 * true if the wait was to end. */
HT_MUST_CHECK
bool standby_close(struct standby *standby);
/* Answers those that wait for the end: with the exit status, and what there is to say. */
void standby_end(struct standby *standby, unsigned status, const char *message);
