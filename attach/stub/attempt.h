/* SPDX-License-Identifier: Apache-2.0
 *
 * One attempt to let one thread of the target run the stub: the thread is stopped, checked, sent to
 * the stub, answered through the control page, and put back.
 */
#pragma once

#include "attach/helper/worker.h"
#include "attach/stub/remote_slack.h"
#include "attach/stub/remote_task.h"
#include "attach/proc/clock.h"
#include "attach/thread/tracee.h"

/* All pointers are borrowed. */
struct attempt {
	const struct proc *proc;
	const struct remote_slack *slack;
	pid_t tid;
	bool computes;		    /* the thread was seen computing */
	bool filtered;		    /* the thread may have a seccomp filter */
	const struct stub_map *map; /* NULL: unmap */
	const struct remote_heir *heir;
	const struct remote_remains *remains;
	/* The attempt sets the rest; zero at first. */
	bool together; /* this worker has moved to the thread's core, and the thread's timers are
			  precise */
	struct stub_unmap unmap;
	struct tracee tracee;
	struct tracee as_stopped;
	uint64_t signal_mask;
	bool written;	  /* the stub's bytes are written, or are being written */
	uint64_t sent_ns; /* when the thread was sent to the stub */
	uint64_t ran_ns;  /* the thread's CPU time at sent_ns, or soon after; 0: unknown */
};

/* The result, in `reply->data`. */
struct attempt_outcome {
	bool ran;	/* false: this thread cannot be used, try another */
	bool untouched; /* the slack was not written */
	uint64_t stop_ns;
	uint32_t tid_offset;
	raddr_t thread_pointer;
	int agent_fd;
	bool clock_forbidden; /* the thread may not read the clock: it undoes everything */
	bool stuck;	      /* mapped, but the thread is still in the stub */
	bool not_taken;	      /* the thread itself undoes what it has mapped */
	bool put_back;	      /* put back by heaptap before the stub's own end */
};

/* Descriptors in `reply->fd` of an attempt that maps; the caller closes them. */
enum { ATTEMPT_MEMFD, ATTEMPT_DAEMON, ATTEMPT_AGENT };

/*
 * For worker_run, with this deadline; the attempt ends by itself before that, unless it hangs.
 * `context` is the attempt. Whatever it returns, the outcome says what became of the thread. An
 * error says why the target is refused, what is left in it (HT_ERR_INCOMPLETE), or that it ended
 * (HT_ERR_TARGET_GONE).
 */
#define ATTEMPT_DEADLINE_NS (50 * CLOCK_NS_PER_S)
HT_MUST_CHECK
struct ht_err *attempt_run(void *context, struct worker_reply *reply);
