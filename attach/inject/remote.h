/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a bootstrap stub in one thread of the target: brings the agent's image in, takes it out. The
 * thread is stopped for a fraction of a millisecond, in a worker process; it restores itself,
 * whoever dies.
 */
#pragma once

#include "attach/inject/choose.h"
#include "attach/inject/stub.h"

/* The stub's place, prepared: the bytes that were there, to be written back when no thread is in
 * it. */
struct remote_slack {
	raddr_t addr;
	size_t bytes;
	uint8_t original[STUB_BYTES_MAX];
};

/* Chooses the place and reads its bytes. Writes them back once, so that the page is private to the
 * target before any thread is stopped. */
HT_MUST_CHECK
struct ht_err *remote_slack_prepare(const struct proc *proc, const struct modules *modules,
	const struct proc_maps *maps, struct remote_slack *ret);
/* Writes the original bytes back. No thread may have its PC, or a saved PC, in there. */
HT_MUST_CHECK
struct ht_err *remote_slack_restore(const struct proc *proc, const struct remote_slack *slack);

struct remote_image {
	int memfd;	  /* of the image; owned by the caller */
	int daemon_fd;	  /* the daemon's end of the socket pair; owned */
	int agent_socket; /* the agent's end, for its options and cookie; owned, to be closed soon
			   */
	int agent_fd;	  /* number of that end in the target */
	pid_t tid;	  /* the thread that ran the stub */
	raddr_t thread_pointer; /* its %fs base */
	uint64_t stop_ns;	/* from its interruption until it ran its own code again, at most */
};

/*
 * Maps the image at map->image. On error nothing is left in the target: a thread that got no answer
 * within its lease undoes everything. HT_ERR_REFUSED when no thread could be used in time.
 */
HT_MUST_CHECK
struct ht_err *remote_map(const struct proc *proc, const struct remote_slack *slack,
	const struct stub_map *map, bool suspend_seccomp, struct remote_image *ret);

/* Unmaps and closes what `unmap` says. The ranges must be proven quiet, and ours. */
HT_MUST_CHECK
struct ht_err *remote_unmap(const struct proc *proc, const struct remote_slack *slack,
	const struct stub_unmap *unmap, bool suspend_seccomp, uint64_t *ret_stop_ns);
