/* SPDX-License-Identifier: Apache-2.0
 *
 * The socket of a capture: made in the first directory that can be used, removed at the end. The
 * next heaptap removes sockets that a killed heaptap left in that directory.
 */
#pragma once

#include "format/control.h"

struct place {
	int listener;  /* non-blocking; -1: none */
	int directory; /* the directory that has the socket's name; -1: none */
	char path[CONTROL_PATH_MAX];
	char name[CONTROL_NAME_MAX];
};

#define PLACE_NONE ((struct place){.listener = -1, .directory = -1})

/*
 * Makes the socket for the capture of process `pid`, mode 0600, and listens. `start_ticks`: field
 * 22 of the process's stat. `waiter`: 0 if the caller holds the lock on the process; the caller's
 * own PID if the caller waits to record the process. In both cases a socket that already has this
 * name belongs to a dead process, and is replaced. HT_ERR_SYS names the directories and why none
 * can be used; `ret` is PLACE_NONE then. Close with place_close.
 */
HT_MUST_CHECK
struct ht_err *place_open(pid_t pid, uint64_t start_ticks, pid_t waiter, struct place *ret);

/* As place_open, in the first of the `count` directories `paths` that can be used. */
HT_MUST_CHECK
struct ht_err *place_open_in(char (*paths)[CONTROL_PATH_MAX], size_t count, pid_t pid,
	uint64_t start_ticks, pid_t waiter, struct place *ret);

/* Removes the socket's name, and the directory if it is empty then, and closes both descriptors.
 * Sets `place` to PLACE_NONE. */
void place_close(struct place *place);

/* Removes the socket that a killed heaptap left for the capture of this process, if there is one.
 * The caller holds the lock on the process. */
void place_forget(pid_t pid, uint64_t start_ticks);
