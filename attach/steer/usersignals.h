/* SPDX-License-Identifier: Apache-2.0
 *
 * Signals to heaptap by which scripts steer a capture without a client: SIGUSR1 takes a snapshot,
 * SIGUSR2 begins or ends a pause. inherited_signals blocks both.
 */
#pragma once

#include <sys/types.h>

#include "format/base.h"

struct usersignals {
	int fd;		/* signalfd; -1: none */
	pid_t snapshot; /* of the process that takes a snapshot; 0: none */
};

#define USERSIGNALS_NONE ((struct usersignals){.fd = -1})

struct usersignals_taken {
	bool snapshot, pause;
};

/* Opens the signalfd. If that fails, the signals do nothing. */
void usersignals_open(struct usersignals *signals);
/* The signals since the last call; several of one kind count once. Never waits. */
struct usersignals_taken usersignals_take(const struct usersignals *signals);
/* Runs heaptap snapshot for the capture of `pid`, whose trace is `trace`, into
 * TRACE.snapshot.N.htap. Does nothing while an earlier snapshot still runs. */
void usersignals_snapshot(struct usersignals *signals, pid_t pid, const char *trace);
/* Reaps the snapshot process if it has ended. Call it in each pass. */
void usersignals_reap(struct usersignals *signals);
void usersignals_close(struct usersignals *signals);

/* Writes to `ret`, of `bytes` bytes, the argument of -o for a snapshot of `trace`, as a pattern
 * (naming.h). False: it does not fit. */
bool usersignals_name(const char *trace, char *ret, size_t bytes);
