/* SPDX-License-Identifier: Apache-2.0
 *
 * Follows a thread that is about to make a child (fork, vfork, posix_spawn, system ...) to the
 * child, and the child to the program that it execs, which is held before any of its constructors
 * runs (hold/follow.h). Nothing is changed in thread and child before that, and both go on
 * whichever process of heaptap dies. Only in a worker (helper/worker.h).
 */
#pragma once

#include "attach/hold/follow.h"

struct birth {
	pid_t pid;		   /* of the child; 0: no child was seen */
	bool ended;		   /* the child has ended without an exec */
	enum follow_result result; /* FOLLOW_NOTHING: the child runs, and has not exec'd */
	struct follow_wait wait;
};

/*
 * Calls `born(context, pid)` as soon as there is a child, while the thread that made it is still
 * stopped; then releases that thread. A child that does not exec soon, or does something that
 * tracing would change, is released. A process that is still traced at the end runs, and is
 * released by the worker's end, which must follow at once. After an error everything runs as well;
 * `ret` is set as far as known.
 */
HT_MUST_CHECK
struct ht_err *birth_follow(const struct follow_ask *ask, void (*born)(void *context, pid_t pid),
	void *context, struct birth *ret);
