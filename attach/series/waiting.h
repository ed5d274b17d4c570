/* SPDX-License-Identifier: Apache-2.0
 *
 * Waits for the begin of a window without touching the process: for a time, or for its memory.
 * Others see it meanwhile (standby.h).
 */
#pragma once

#include "attach/steer/growth.h"
#include "attach/proc/proc.h"
#include "attach/series/standby.h"

enum waiting_end {
	WAITING_DUE,	   /* the window begins */
	WAITING_SIGNALLED, /* a signal that ends a capture; it is taken */
	WAITING_STOPPED,   /* a client has asked to end the wait */
	WAITING_ENDED,	   /* the process has ended */
};

/* The first two are borrowed. */
struct waiting {
	const struct proc *proc; /* NULL: for no process */
	struct standby *standby;
	int signal; /* the one that ended the wait */
};

struct waiting_trigger {
	uint64_t rss_bytes;	    /* 0: not waited for */
	struct growth_limit growth; /* since the wait began */
};

/* CLOCK_BOOTTIME. */
uint64_t waiting_now_ns(void);
/* Waits until `boot_ns`. The ending signals (start.h) are blocked. */
enum waiting_end waiting_until(struct waiting *waiting, uint64_t boot_ns);
/* Waits for the first of the trigger's conditions. */
enum waiting_end waiting_trigger(struct waiting *waiting, const struct waiting_trigger *trigger);
