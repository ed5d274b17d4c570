/* SPDX-License-Identifier: Apache-2.0
 *
 * Has the target's heap read while the capture goes on, by a process of its own that only reads and
 * has a limit on its time, and puts what it found into the trace. Whatever goes wrong with it, the
 * capture goes on without.
 */
#pragma once

#include "attach/heap/heap.h"

struct session;

#define HEAPREAD_DYING_MAX 4u

struct heapread {
	pid_t pid;			 /* 0: none runs */
	pid_t dying[HEAPREAD_DYING_MAX]; /* were killed, and had not died yet */
	unsigned dying_count;
	uint64_t begin_tsc, end_ns;
	struct heapread_page *page; /* shared with it */
};

/* At the window's start and end; not while one runs. `limit_ns`: it is killed then. */
void heapread_start(struct session *s, uint64_t limit_ns);
/* Looks whether it is done, to be called every few milliseconds. Returns whether it still runs. */
HT_MUST_CHECK
struct ht_err *heapread_look(struct session *s, bool *ret_runs);
/* Kills it if it runs. What it holds open is closed. */
void heapread_stop(struct session *s);
/* The same, for the last time: whoever was killed is waited for, a second at most. One that had not
 * got a processor since it was forked has all our descriptors, the lock's among them; one that
 * cannot die is left to init, and holds nothing but what it reads. */
void heapread_finish(struct session *s);
