/* SPDX-License-Identifier: Apache-2.0
 *
 * A progress bar for a file that is being read: a thread reads the file's offset, so the code that
 * reads the file need not report progress.
 */
#pragma once

#include <pthread.h>

#include "analyzer/ui/progress.h"

struct watch {
	struct progress progress;
	char what[256];
	int fd;
	bool is_running;
	bool has_ended; /* guarded by `lock`, as `progress` is */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t ended;
};

/* Begins to show on `out`, standard error, how much of `fd` is read; `name` is that of the file.
 * Shows nothing if `out` is no terminal, or `fd` is no regular file. `watch` must not move until
 * watch_end; until then nothing else may write to the terminal. */
void watch_begin(struct watch *watch, FILE *out, int fd, const char *name);
/* Erases the bar. `fd` must still be open. Idempotent. */
void watch_end(struct watch *watch);
