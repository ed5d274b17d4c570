/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a bootstrap stub in one thread of the target: maps the agent's image, or unmaps it. A worker
 * process stops the thread for a fraction of a millisecond. The thread restores itself, even if
 * heaptap dies.
 */
#pragma once

#include "attach/stub/remote_slack.h"
#include "attach/stub/remote_task.h"

struct remote_image {
	int memfd; /* of the image; the caller owns it and the next two. Also open after an error if
		      the image is mapped */
	int daemon_fd;	  /* the daemon's end of the socket pair */
	int agent_socket; /* the agent's end, for its options and cookie; close it soon */
	int agent_fd;	  /* number of the agent's end in the target */
	pid_t tid; /* the thread that ran the stub, also after an error; 0: none, and the slack was
		      not written */
	uint32_t tid_offset;	/* from a thread's %fs base to its tid; 0: unknown */
	raddr_t thread_pointer; /* of the thread `tid` */
	uint64_t stop_ns; /* at most, from the thread's interruption until it ran its own code */
	bool clock_forbidden; /* also after an error: no other attempt would succeed */
	bool not_taken; /* after an error: the thread undoes its mappings itself. False without a
			   memfd: an image may stay */
};

/*
 * Maps the image at map->image; `heir` may be NULL. After an error nothing is left in the target if
 * ret->not_taken is set: a thread that gets no answer within its lease undoes everything.
 * HT_ERR_REFUSED if no thread could be used in time, or if the thread may not read the time stamp
 * counter, which the agent reads.
 */
HT_MUST_CHECK
struct ht_err *remote_map(const struct proc *proc, const struct remote_slack *slack,
	const struct stub_map *map, bool filtered, const struct remote_heir *heir,
	struct remote_image *ret);

struct remote_unmapped {
	uint64_t stop_ns; /* as in remote_image */
	/* The thread was put back while it waited in the stub's last wait, with all signals blocked
	 * until then: neither its PC nor a saved PC can be in the stub. */
	bool is_out;
};

/* Unmaps and closes what `remains` finds. The ranges must be heaptap's, and proven unused. */
HT_MUST_CHECK
struct ht_err *remote_unmap(const struct proc *proc, const struct remote_slack *slack,
	const struct remote_remains *remains, bool filtered, struct remote_unmapped *ret);
