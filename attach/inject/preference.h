/* SPDX-License-Identifier: Apache-2.0
 *
 * Which threads should rather not run the stub.
 *
 * While a thread is in the stub, or stopped, it takes no signals. What is sent to the process, and
 * the kernel would have given to that thread, goes to another one: which runs the handler, in the
 * place of a main thread that waits for that (pause), or whose epoll_wait returns EINTR for a
 * signal that is ignored. So there is patience for another thread; but for one that may have to
 * wait for a core where an addressed one sleeps, or have a filter that we may not suspend. And
 * where no signal has a handler, and all others compute, nobody would notice.
 */
#pragma once

#include "attach/inject/choose.h"

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
