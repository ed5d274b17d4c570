/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows that wait until an endpoint takes them: one directory an address, one file (request.h) a
 * window, oldest first. A crash at any time loses nothing that was added, and adds nothing twice.
 */
#pragma once

#include <stdio.h>

#include "analyzer/push/rows.h"
#include "format/err.h"

#define PUSH_SPOOL_NAME_BYTES 64u
#define PUSH_SPOOL_PATH_BYTES 4200u

struct push_spool {
	int dir; /* its directory */
	int lock;
	char path[PUSH_SPOOL_PATH_BYTES];
	uint64_t max_bytes;
};

/* Opens, and makes with mode 0700, the directory of the address that is `shown` so, below `base`;
 * NULL: $STATE_DIRECTORY, $XDG_STATE_HOME/heaptap/push, /var/lib/heaptap/push (root) or
 * ~/.local/state/heaptap/push. */
HT_MUST_CHECK
struct ht_err *push_spool_open(
	const char *base, const char *shown, uint64_t max_bytes, struct push_spool *ret);
void push_spool_close(struct push_spool *spool);

enum push_added {
	PUSH_ADDED,
	PUSH_WAITS, /* it is in the spool already */
	PUSH_SENT,  /* the endpoint took it before */
};
/* Adds what `write(out, context)` writes as the youngest window. The oldest ones go where all
 * together have more than max_bytes: `ret_dropped` is how many. HT_ERR_SYS, and nothing is added,
 * where the window alone has more. */
HT_MUST_CHECK
struct ht_err *push_spool_add(struct push_spool *spool, const char *key,
	struct ht_err *(*write)(FILE *out, void *context), void *context, enum push_added *ret,
	size_t *ret_dropped);
/* Becomes the one process that sends from this spool; false: another one is. */
bool push_spool_lock(struct push_spool *spool);
void push_spool_unlock(struct push_spool *spool);
/* The name of the oldest window that is younger than `after`, "": of all. False: there is none. */
bool push_spool_next(struct push_spool *spool, const char *after, char ret[PUSH_SPOOL_NAME_BYTES]);
/* A descriptor of it; -1: it is gone. */
int push_spool_read(const struct push_spool *spool, const char *name);
/* The endpoint has taken it: it is removed, and its key is kept, so that the window is not sent
 * again. */
void push_spool_taken(struct push_spool *spool, const char *name, const char *key);
void push_spool_count(const struct push_spool *spool, size_t *ret_windows, uint64_t *ret_bytes);
/* Windows that were ever dropped. */
uint64_t push_spool_dropped(const struct push_spool *spool);
