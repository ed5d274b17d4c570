/* SPDX-License-Identifier: Apache-2.0
 *
 * A disposable child process that does one job on the target. Everything that uses ptrace, or that
 * could hang on a hostile target, runs in a worker: at the deadline heaptap kills it, and the
 * kernel releases every thread that it held.
 */
#pragma once

#include "format/base.h"
#include "format/err.h"

#define WORKER_REPLY_BYTES 4096u
#define WORKER_FDS_MAX	   4u

struct worker_reply {
	uint8_t data[WORKER_REPLY_BYTES]; /* its layout is agreed between job and caller; zeroed
					     before the job */
	int fd[WORKER_FDS_MAX];		  /* descriptors that the job hands over; -1: none */
	bool begun; /* the child was forked, and the job may have been done in part */
};

#define WORKER_NO_REPLY                                                                            \
	(struct worker_reply)                                                                      \
	{                                                                                          \
		.fd = { [0 ... WORKER_FDS_MAX - 1] = -1 }                                          \
	}

/* Runs `job(context, reply)` in a child, waits for the child's end, and returns its reply and its
 * error. The child works on a copy of all memory; only the reply comes back. A child that is
 * stopped (SIGSTOP) is continued. At the deadline kills the child and waits up to 1 s for its end:
 * HT_ERR_REFUSED, which names `what`. A child that waits for a file system may survive that. The
 * caller owns the descriptors in `ret`, also after an error. If the child died or was late, `ret`
 * is its last worker_hand_over, or WORKER_NO_REPLY. */
HT_MUST_CHECK
struct ht_err *worker_run(const char *what, uint64_t deadline_mono_ns,
	struct ht_err *(*job)(void *context, struct worker_reply *reply), void *context,
	struct worker_reply *ret);

/* For a worker: sends the reply as it is now, in case the worker dies before its last one. */
HT_MUST_CHECK
struct ht_err *worker_hand_over(const struct worker_reply *reply);

/* For a worker: waits for SIGCHLD, which the kernel sends when a traced thread stops, for 0.2 ms at
 * most. Workers block that signal. A yield is not enough: the thread cannot stop before it gets the
 * core on which the worker would spin. */
void worker_await_stop(void);

/* For a worker: between these calls the death of its parent does not end the worker; it does so at
 * the second call. Calls nest. Only for short moments in which the worker's end would change the
 * target's behaviour. */
void worker_put_off_death(void);
void worker_resume_death(void);
