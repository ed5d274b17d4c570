/* SPDX-License-Identifier: Apache-2.0
 *
 * Lets a separate process read the target's heap while the capture goes on, and puts the result
 * into the trace. The process only reads, and for a limited time. After any failure the capture
 * goes on without the result.
 */
#pragma once

#include "attach/heap/heap.h"

struct modules;
struct proc;
struct receiver;
struct sink;

#define HEAPREAD_DYING_MAX 4u

struct heapread {
	const struct proc *proc;
	const struct modules *modules;
	struct receiver *receiver; /* delays what it receives while the heap is read; or NULL */
	struct sink *sink;
	pid_t pid;			 /* 0: none runs */
	pid_t dying[HEAPREAD_DYING_MAX]; /* killed, and not reaped yet */
	unsigned dying_count;
	uint64_t begin_tsc, end_ns;
	struct heapread_page *page; /* shared with it */
};

/* Starts the reader, at the window's start and end; not while one runs. The caller has set the
 * first four fields; they outlive the reading. `limit_ns`: heapread_look kills a reader that takes
 * longer. Without memory or processes there is no reading. */
void heapread_start(struct heapread *reading, uint64_t limit_ns);
/* Puts the account into the trace when the reader has ended or its time is over. The caller calls
 * it every few milliseconds. `ret_runs`: the reader still runs. */
HT_MUST_CHECK
struct ht_err *heapread_look(struct heapread *reading, bool *ret_runs);
/* Kills the reader if it runs. */
void heapread_stop(struct heapread *reading);
/* Kills the reader and waits up to a second for each one that was killed. A reader that has not run
 * since its fork holds all descriptors of heaptap, the lock's too. A reader that cannot die is left
 * to init and holds only what it reads. */
void heapread_finish(struct heapread *reading);
