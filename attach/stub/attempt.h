/* SPDX-License-Identifier: Apache-2.0
 *
 * One attempt to have one thread of the target run the stub: it is stopped, asked whether it is fit
 * for that, sent there, spoken with through the control page, and put back.
 */
#pragma once

#include "attach/helper/worker.h"
#include "attach/stub/remote_slack.h"
#include "attach/stub/remote_task.h"
#include "attach/proc/clock.h"
#include "attach/thread/tracee.h"

/* All that is pointed at is the caller's. */
struct attempt {
	const struct proc *proc;
	const struct remote_slack *slack;
	pid_t tid;
	bool computes;		    /* it was seen so */
	bool filtered;		    /* it may be: how its call would be made again */
	const struct stub_map *map; /* NULL: unmap */
	const struct remote_heir *heir;
	const struct remote_remains *remains;
	/* The rest is its own, zeroed at first. */
	bool together; /* on one core with us, for the moment */
	struct stub_unmap unmap;
	struct tracee tracee;
	struct tracee as_stopped;
	uint64_t signal_mask;
	bool written;	  /* the stub has been, or is being */
	uint64_t sent_ns; /* when the thread went to it */
	uint64_t ran_ns;  /* what it had run by then, or soon after; 0: not told */
};

/* In `reply->data`. */
struct attempt_outcome {
	bool ran;	/* false: this thread would not do, try another */
	bool untouched; /* nor was the slack written */
	uint64_t stop_ns;
	uint32_t tid_offset;
	raddr_t thread_pointer;
	int agent_fd;
	bool clock_forbidden; /* to the thread: everything is being undone */
	bool stuck;	      /* mapped, but the thread is still in the stub */
	bool not_taken;	      /* what the thread has mapped it undoes by itself */
	bool put_back;	      /* it did not come to the stub's own end */
};

/* Descriptors in `reply->fd`, the caller's to close; where it maps only. */
enum { ATTEMPT_MEMFD, ATTEMPT_DAEMON, ATTEMPT_AGENT };

/* For worker_run, with this deadline: it ends by itself before that, or hangs. `context` is the
 * attempt. Whatever it returns, the outcome says what became of the thread. An error is why the
 * target is refused, what is left in it (HT_ERR_INCOMPLETE), or that it ended
 * (HT_ERR_TARGET_GONE). */
#define ATTEMPT_DEADLINE_NS (50 * CLOCK_NS_PER_S)
HT_MUST_CHECK
struct ht_err *attempt_run(void *context, struct worker_reply *reply);
