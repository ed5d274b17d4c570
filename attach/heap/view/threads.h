/* SPDX-License-Identifier: Apache-2.0
 *
 * The control blocks of a program's threads, as glibc makes them: each lies at the end of its
 * thread's stack, names itself, and stands behind all that is the thread's own.
 */
#pragma once

#include "attach/heap/view/view.h"

/* Of a thread's variables, before its control block, that are looked at. */
#define THREADS_VARIABLES_BYTES 16384u
#define THREADS_BLOCK_ALIGN	64u

struct threads {
	raddr_t *block;
	size_t count, capacity;
};

/* Those that are found; there may be more. */
HT_MUST_CHECK
struct ht_err *threads_find(struct view *view, struct threads *ret);
void threads_deinit(struct threads *threads);
/* What stands before the block of that index, `ret` of THREADS_VARIABLES_BYTES: the bytes, which
 * end where the block begins. 0: it cannot be read. */
size_t threads_variables(struct view *view, const struct threads *threads, size_t index, void *ret);
