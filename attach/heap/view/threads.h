/* SPDX-License-Identifier: Apache-2.0
 *
 * glibc's control blocks of the program's threads: each lies at the end of its thread's stack,
 * contains its own address, and follows the thread's variables.
 */
#pragma once

#include "attach/heap/view/view.h"

/* Size of the variables before a control block that heaptap reads. */
#define THREADS_VARIABLES_BYTES 16384u
#define THREADS_BLOCK_ALIGN	64u

struct threads {
	raddr_t *block;
	size_t count, capacity;
};

/* Finds control blocks; may miss some. Free with threads_deinit. */
HT_MUST_CHECK
struct ht_err *threads_find(struct view *view, struct threads *ret);
void threads_deinit(struct threads *threads);
/* Reads the thread's variables: the bytes that end where the control block `index` begins. `ret`
 * has THREADS_VARIABLES_BYTES. Returns their number; 0: unreadable. */
size_t threads_variables(struct view *view, const struct threads *threads, size_t index, void *ret);
