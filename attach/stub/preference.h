/* SPDX-License-Identifier: Apache-2.0
 *
 * Which threads should rather not run the stub.
 *
 * A thread in the stub, or a stopped one, takes no signals. The kernel gives a signal to the
 * process to another thread then. That thread runs the handler, while a main thread sleeps on in
 * pause; or its epoll_wait returns EINTR for an ignored signal. So heaptap waits for another
 * thread, unless that one has to wait for a core, or has a filter that heaptap may not suspend. If
 * no signal has a handler and all other threads compute, the program cannot notice, and heaptap
 * does not wait.
 */
#pragma once

#include "attach/stub/choose.h"

struct preference {
	bool others;   /* are there any that are not addressed */
	bool sleeper;  /* is an addressed thread asleep */
	bool confined; /* the others may have a filter that we may not suspend */
	bool deaf;     /* no signal of the process would be noticed in another thread */
};

HT_MUST_CHECK
struct ht_err *preference_read(const struct proc *proc, const struct choose_threads *threads,
	bool filtered, struct preference *ret);

/* Is it worth the wait for another one? */
bool preference_is_second(const struct preference *preference, const struct choose_thread *thread);
