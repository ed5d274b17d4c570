/* SPDX-License-Identifier: Apache-2.0
 *
 * Waits for the begin of a window without touching the process: for a time, or until the process
 * uses a given amount of memory. Other processes see the wait (standby.h).
 */
#pragma once

#include "attach/steer/growth.h"
#include "attach/proc/proc.h"
#include "attach/series/standby.h"

enum waiting_end {
	WAITING_DUE,	   /* the window begins */
	WAITING_SIGNALLED, /* a signal of inherited_ending_signals came; it is no longer pending */
	WAITING_STOPPED,   /* a client has asked to end the wait */
	WAITING_ENDED,	   /* the process has ended */
};

/* The caller sets the first two fields, which are borrowed. */
struct waiting {
	const struct proc *proc; /* its end ends the wait; NULL: none */
	struct standby *standby;
	int signal; /* the signal that ended the wait; 0: none */
};

struct waiting_trigger {
	uint64_t rss_bytes;	    /* the window begins at this RSS; 0: at no RSS */
	struct growth_limit growth; /* or when RSS has grown so much since the wait began */
};

/* The time of CLOCK_BOOTTIME. */
uint64_t waiting_now_ns(void);
/* Waits until `boot_ns` (CLOCK_BOOTTIME). The caller has blocked the signals of
 * inherited_ending_signals. Without free descriptors it is WAITING_DUE after 250 ms. */
enum waiting_end waiting_until(struct waiting *waiting, uint64_t boot_ns);
/* Waits until one of the trigger's conditions holds (WAITING_DUE). Requires waiting->proc; signals
 * as for waiting_until. */
enum waiting_end waiting_trigger(struct waiting *waiting, const struct waiting_trigger *trigger);
