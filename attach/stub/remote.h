/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a bootstrap stub in one thread of the target: brings the agent's image in, takes it out. The
 * thread is stopped for a fraction of a millisecond, in a worker process; it restores itself,
 * whoever dies.
 */
#pragma once

#include "attach/stub/remote_slack.h"
#include "attach/stub/remote_task.h"

struct remote_image {
	int memfd;	  /* of the image; owned by the caller, as the next two are. Open after an
			   * error, too, where the image is mapped */
	int daemon_fd;	  /* the daemon's end of the socket pair; owned */
	int agent_socket; /* the agent's end, for its options and cookie; owned, to be closed soon
			   */
	int agent_fd;	  /* number of that end in the target */
	pid_t tid;	  /* the thread that ran the stub; set after an error, too: 0 means that
			   * none did, and that the slack was not written */
	uint32_t tid_offset;	/* of a thread's tid from its %fs base; 0: not known */
	raddr_t thread_pointer; /* of the thread `tid` */
	uint64_t stop_ns;	/* from its interruption until it ran its own code again, at most */
	bool clock_forbidden;	/* set after an error, too: no other attempt would do */
	bool not_taken;		/* after an error: what the thread has mapped it undoes by itself.
				 * False without a memfd: it is not known whether an image stays */
};

/*
 * Maps the image at map->image; `heir` may be NULL. On error nothing is left in the target if
 * ret->not_taken: a thread that got no answer within its lease undoes everything. HT_ERR_REFUSED
 * when no thread could be used in time, or the one that was used may not read the time stamp
 * counter, as the agent does.
 */
HT_MUST_CHECK
struct ht_err *remote_map(const struct proc *proc, const struct remote_slack *slack,
	const struct stub_map *map, bool filtered, const struct remote_heir *heir,
	struct remote_image *ret);

struct remote_unmapped {
	uint64_t stop_ns; /* as that of remote_image */
	/* The thread was put back from the stub's last wait but one call, all its signals blocked
	 * until then: neither its PC nor a saved one can be in the stub. */
	bool is_out;
};

/* Unmaps and closes what `remains` finds. The ranges must be proven quiet, and ours. */
HT_MUST_CHECK
struct ht_err *remote_unmap(const struct proc *proc, const struct remote_slack *slack,
	const struct remote_remains *remains, bool filtered, struct remote_unmapped *ret);
