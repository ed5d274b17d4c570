/* SPDX-License-Identifier: Apache-2.0
 *
 * Which threads should rather not run the stub.
 *
 * A thread that is stopped or in the stub takes no signals: the kernel gives a signal for the
 * process to another thread. That thread then runs the handler, while the main thread goes on
 * sleeping in pause; or its epoll_wait returns EINTR for an ignored signal. So heaptap waits for a
 * thread that gets no such signals, unless that thread would have to wait for a core, or may have a
 * filter that heaptap may not suspend. If no signal has a handler and all other threads compute,
 * the program cannot notice, and heaptap does not wait.
 */
#pragma once

#include "attach/stub/choose.h"

struct preference {
	bool others;   /* are there threads that are not `addressed` */
	bool sleeper;  /* is an addressed thread asleep */
	bool confined; /* the others may have a filter that heaptap may not suspend */
	bool deaf;     /* no signal in another thread would be noticed */
};

HT_MUST_CHECK
struct ht_err *preference_read(const struct proc *proc, const struct choose_threads *threads,
	bool filtered, struct preference *ret);

/* Is it worth waiting for another thread than this one? */
bool preference_is_second(const struct preference *preference, const struct choose_thread *thread);
