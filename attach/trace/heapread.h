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
	struct receiver *receiver; /* its complete_tsc is held back while the heap is read; not NULL
				      in heapread_start */
	struct sink *sink;
	pid_t pid;			 /* of the reader; 0: none runs */
	pid_t dying[HEAPREAD_DYING_MAX]; /* killed, and not reaped yet */
	unsigned dying_count;
	uint64_t begin_tsc, end_ns;
	struct heapread_page *page; /* shared with the reader */
};

/* Starts the reader. Call it at the window's start and end, not while a reader runs. The caller has
 * set the first four fields; what they point to outlives the reader. `limit_ns`: heapread_look
 * kills a reader that takes longer. If there is no memory, or fork fails, no reader runs. */
void heapread_start(struct heapread *reading, uint64_t limit_ns);
/* Call it every few milliseconds. When the reader has ended or its time is over, puts the result,
 * or that there is none, into the trace. `*ret_runs`: the reader still runs. */
HT_MUST_CHECK
struct ht_err *heapread_look(struct heapread *reading, bool *ret_runs);
/* Kills the reader if it runs. */
void heapread_stop(struct heapread *reading);
/* Kills the reader and waits, up to a second in all, for the readers that were killed. A reader
 * that has not run since its fork holds all descriptors of heaptap, that of the lock, too. A reader
 * that survives SIGKILL is left to init, and holds only the descriptors that it reads through. */
void heapread_finish(struct heapread *reading);
