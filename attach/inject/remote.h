/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a bootstrap stub in one thread of the target: brings the agent's image in, takes it out. The
 * thread is stopped for a fraction of a millisecond, in a worker process; it restores itself,
 * whoever dies.
 */
#pragma once

#include "attach/inject/choose.h"
#include "attach/inject/stub.h"
#include "attach/memory/proc_map.h"

/* The stub's place, prepared: the bytes that were there, to be written back when no thread is in
 * it. */
struct remote_slack {
	raddr_t addr;
	size_t bytes;
	raddr_t left; /* choose_slack's */
	uint8_t original[STUB_BYTES_MAX];
};

/* A stub that is not ours stands there: HT_ERR_REFUSED. */
HT_MUST_CHECK
struct ht_err *remote_slack_refuse(const struct proc *proc);
/* The place for a stub that makes so many near areas, and its bytes: only one that the program has
 * left as its file has it. HT_ERR_REFUSED when there is none, or a stub stands there. */
HT_MUST_CHECK
struct ht_err *remote_slack_choose(const struct proc *proc, const struct modules *modules,
	const struct proc_maps *maps, size_t near_count, struct remote_slack *ret);
/* Chooses it. Writes its bytes back once, so that the page is private to the target before any
 * thread is stopped. */
HT_MUST_CHECK
struct ht_err *remote_slack_prepare(const struct proc *proc, const struct modules *modules,
	const struct proc_maps *maps, size_t near_count, struct remote_slack *ret);
/* Is there a stub that nobody has taken out, running or not? Told by its code; the place in `ret`.
 */
bool remote_find_stub(const struct proc *proc, const struct modules *modules,
	const struct proc_maps *maps, struct choose_slack *ret);
/* A place of which nobody knows any more what was there: its bytes as the module's file has them.
 * HT_ERR_INCOMPLETE when the file cannot be read. */
HT_MUST_CHECK
struct ht_err *remote_slack_from_file(const struct proc *proc, const struct proc_maps *maps,
	const struct choose_slack *place, struct remote_slack *ret);
/* Does a stub stand there? Nobody else writes one: a module that was loaded in that place since, or
 * a child that was forked before or after, has something else there. */
HT_MUST_CHECK
struct ht_err *remote_slack_holds_stub(
	const struct proc *proc, const struct remote_slack *slack, bool *ret);
/* Writes the original bytes back, where a stub stands. No thread may have its PC, or a saved PC, in
 * there. */
HT_MUST_CHECK
struct ht_err *remote_slack_restore(const struct proc *proc, const struct remote_slack *slack);

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

/* Who is to have the image before it is taken, because whoever takes it may die of that. */
struct remote_heir {
	struct ht_err *(*hand_over)(void *context, int memfd); /* called in a worker */
	void *context;
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

/* What is to go, as it is in this very moment: `look` is called in each attempt with the thread
 * `tid` held, directly before its stub. */
struct remote_remains {
	struct ht_err *(*look)(void *context, pid_t tid, struct stub_unmap *ret);
	void *context;
	pid_t table; /* only a thread with the descriptors of this one will do; 0: the process's */
};

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
