/* SPDX-License-Identifier: Apache-2.0
 *
 * Stores windows until an endpoint accepts them: a directory per address, a file (request.h) per
 * window, oldest first. After a crash at any time, every window that was added, and neither
 * accepted nor dropped, is still there, once.
 */
#pragma once

#include <stdio.h>

#include "analyzer/push/rows.h"
#include "format/err.h"

#define PUSH_SPOOL_NAME_BYTES 64u
#define PUSH_SPOOL_PATH_BYTES 4200u

struct push_spool {
	int dir; /* descriptor of the spool's directory */
	int lock;
	char path[PUSH_SPOOL_PATH_BYTES];
	uint64_t max_bytes;
};

/* Opens the directory for the address `shown` (push_address.shown), below `base`; makes it with
 * mode 0700. `base` NULL: the first that is usable of $STATE_DIRECTORY/push,
 * $XDG_STATE_HOME/heaptap/push, /var/lib/heaptap/push (root) and ~/.local/state/heaptap/push.
 * Removes unfinished files of processes that were killed. Call push_spool_close also after an
 * error. */
HT_MUST_CHECK
struct ht_err *push_spool_open(
	const char *base, const char *shown, uint64_t max_bytes, struct push_spool *ret);
void push_spool_close(struct push_spool *spool);

enum push_added {
	PUSH_ADDED,
	PUSH_WAITS, /* the window is already in the spool */
	PUSH_SENT,  /* the endpoint accepted the window before */
};
/* Adds the output of `write(out, context)` as the youngest window. If all windows together have
 * more than max_bytes, removes the oldest until they fit; `ret_dropped`: number of removed windows.
 * HT_ERR_SYS, without adding the window, if the window alone has more. */
HT_MUST_CHECK
struct ht_err *push_spool_add(struct push_spool *spool, const char *key,
	struct ht_err *(*write)(FILE *out, void *context), void *context, enum push_added *ret,
	size_t *ret_dropped);
/* Locks the spool: only one process sends from it. False: another process holds the lock, or the
 * lock cannot be opened. */
bool push_spool_lock(struct push_spool *spool);
void push_spool_unlock(struct push_spool *spool);
/* The name of the oldest window that is younger than `after`; `after` "": of the oldest of all.
 * False: none. */
bool push_spool_next(struct push_spool *spool, const char *after, char ret[PUSH_SPOOL_NAME_BYTES]);
/* Opens a window, which the caller closes; -1: the window was removed, or an error. */
int push_spool_read(const struct push_spool *spool, const char *name);
/* Call when the endpoint has accepted the window: removes it and keeps its key, so that it is not
 * sent again. */
void push_spool_taken(struct push_spool *spool, const char *name, const char *key);
void push_spool_count(const struct push_spool *spool, size_t *ret_windows, uint64_t *ret_bytes);
/* Number of windows that were ever removed for lack of room. */
uint64_t push_spool_dropped(const struct push_spool *spool);
