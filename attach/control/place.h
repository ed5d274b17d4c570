/* SPDX-License-Identifier: Apache-2.0
 *
 * The socket of a capture: made in the first directory that can be used, removed at the end. What a
 * killed heaptap left there is found and removed by the next one.
 */
#pragma once

#include "format/control.h"

struct place {
	int listener;  /* non-blocking; -1: there is none */
	int directory; /* where its name is; -1 */
	char path[CONTROL_PATH_MAX];
	char name[CONTROL_NAME_MAX];
};

#define PLACE_NONE ((struct place){.listener = -1, .directory = -1})

/*
 * Makes the socket for the capture of process `pid`, mode 0600, and listens. `waiter`: 0, and the
 * caller holds the lock on the process; or the caller's own PID, where it waits to record the
 * process. Either way a socket of that name is a dead one's. HT_ERR_SYS names the directories and
 * why none can be used; `ret` is PLACE_NONE then.
 */
HT_MUST_CHECK
struct ht_err *place_open(pid_t pid, uint64_t start_ticks, pid_t waiter, struct place *ret);

/* As place_open, in these directories. */
HT_MUST_CHECK
struct ht_err *place_open_in(char (*paths)[CONTROL_PATH_MAX], size_t count, pid_t pid,
	uint64_t start_ticks, pid_t waiter, struct place *ret);

/* Removes the name, and the directory where it is empty then, and closes both. */
void place_close(struct place *place);

/* Removes the socket that a killed heaptap left for the capture of this process, if there is one.
 * The caller holds the lock on the process. */
void place_forget(pid_t pid, uint64_t start_ticks);
