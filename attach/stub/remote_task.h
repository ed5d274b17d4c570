/* SPDX-License-Identifier: Apache-2.0
 *
 * What the stub is to do in a thread, as far as the caller decides it while the thread is held.
 */
#pragma once

#include "attach/stub/stub.h"

/* Receives the image before the thread keeps it: the worker may be killed as soon as it does. */
struct remote_heir {
	struct ht_err *(*hand_over)(void *context, int memfd); /* called in a worker */
	void *context;
};

/* Finds what is to be unmapped. Each attempt calls `look` while it holds the thread `tid`, directly
 * before the stub runs. */
struct remote_remains {
	struct ht_err *(*look)(void *context, pid_t tid, struct stub_unmap *ret);
	void *context;
	pid_t table; /* only a thread with the descriptors of this one will do; 0: the process's */
};
