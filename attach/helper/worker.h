/* SPDX-License-Identifier: Apache-2.0
 *
 * A disposable child process that does one job on the target. Everything that uses ptrace, or that
 * could hang on a hostile target, runs in one: at the deadline it is killed, and the kernel
 * releases every thread that it held.
 */
#pragma once

#include "format/base.h"
#include "format/err.h"

#define WORKER_REPLY_BYTES 4096u
#define WORKER_FDS_MAX	   4u

struct worker_reply {
	uint8_t data[WORKER_REPLY_BYTES]; /* whatever job and caller agree on; zeroed before */
	int fd[WORKER_FDS_MAX];		  /* descriptors that the job hands over; -1: none */
	bool begun;			  /* there was a child, which may have done anything */
};

#define WORKER_NO_REPLY                                                                            \
	(struct worker_reply)                                                                      \
	{                                                                                          \
		.fd = { [0 ... WORKER_FDS_MAX - 1] = -1 }                                          \
	}

/*
 * Runs `job(context, reply)` in a child and brings back its reply, and its error. The child sees a
 * copy of all memory; only these come back. Where it is stopped (SIGSTOP) it is continued.
 * HT_ERR_REFUSED naming `what` when the deadline passes: the child is dead then, nothing is held.
 * Descriptors in `ret` belong to the caller, after an error, too: as many as have arrived. A child
 * that died, or was late, gives what it had handed over until then (worker_hand_over), or
 * WORKER_NO_REPLY.
 */
HT_MUST_CHECK
struct ht_err *worker_run(const char *what, uint64_t deadline_mono_ns,
	struct ht_err *(*job)(void *context, struct worker_reply *reply), void *context,
	struct worker_reply *ret);

/* In a worker: gives the reply as it is now, in case that it comes to no other. */
HT_MUST_CHECK
struct ht_err *worker_hand_over(const struct worker_reply *reply);

/* Waits until the kernel says that a thread which we trace has stopped (SIGCHLD, which workers have
 * blocked for it), and 0.2 ms at most: then it is time to look all the same. Not a yield: a thread
 * cannot stop before it has the core that we would spin on. */
void worker_await_stop(void);

/*
 * In a worker: the death of its parent ends it at once, but between these two calls only at the
 * second. Calls nest. For the moments in which a thread of the target would notice; they must be
 * short.
 */
void worker_put_off_death(void);
void worker_resume_death(void);
