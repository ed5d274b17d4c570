/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of the stub's work that the caller decides while the thread is held.
 */
#pragma once

#include "attach/stub/stub.h"

/* Receives the memfd before the thread keeps the image: from then on the worker may be killed. */
struct remote_heir {
	struct ht_err *(*hand_over)(void *context, int memfd); /* called in a worker */
	void *context;
};

/* Finds what to unmap. Each attempt calls `look` while it holds the thread `tid`, directly before
 * the stub runs. */
struct remote_remains {
	struct ht_err *(*look)(void *context, pid_t tid, struct stub_unmap *ret);
	void *context;
	pid_t table; /* the thread that runs the stub must share the descriptor table of this
			thread; 0: of the process */
};
