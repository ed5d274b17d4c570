/* SPDX-License-Identifier: Apache-2.0
 *
 * From a thread that is about to make a child (fork, vfork, posix_spawn, system ...) to the child,
 * and on to the program that this becomes by exec: held where that has run nothing yet, as
 * inject/follow does it. Nothing in either of them is changed before that, and whoever of heaptap
 * dies when, they run on. Only in a worker (helper/worker.h).
 */
#pragma once

#include "attach/hold/follow.h"

struct birth {
	pid_t pid;		   /* of the child; 0: none was seen */
	bool ended;		   /* it has, as what it was born as */
	enum follow_result result; /* FOLLOW_NOTHING: it runs, and has not become another program */
	struct follow_wait wait;
};

/*
 * `born(context, pid)` is called as soon as there is a child, while the thread that made it is
 * still stopped; that is let go then. A child that takes longer to its exec than a moment, or does
 * something that its being traced would change, is let go, too. What is still traced at the end
 * runs, and is let go by the end of the worker, which must be the next thing. An error leaves
 * everything running, too; `ret` is set as far as it got.
 */
HT_MUST_CHECK
struct ht_err *birth_follow(const struct follow_ask *ask, void (*born)(void *context, pid_t pid),
	void *context, struct birth *ret);
