/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the agent's records of the target's threads, which lie in the agent's image, for the proof
 * that all threads are outside. The target can write to these records, so the proof checks them
 * against the stacks.
 */
#pragma once

#include "attach/inject/image.h"
#include "attach/proof/quiesce.h"

struct books {
	const struct image *image;
	const struct proc *proc;
	bool same_numbers; /* a thread's number in the target is the one that heaptap sees */
};

/* Finds out once what applies to all threads, so that no thread is held while this is read. */
struct books books_make(const struct image *image, const struct proc *proc);

/* The callbacks of struct quiesce_options; `context` is a struct books. */
raddr_t books_real(void *context, raddr_t entry);
enum quiesce_books books_of(void *context, const struct proc *of, pid_t tid);
size_t books_frames(void *context, const struct proc *of, pid_t tid,
	struct quiesce_frame ret[QUIESCE_FRAMES_MAX], bool *ret_abandoned);
