/* SPDX-License-Identifier: Apache-2.0
 *
 * What the agent's own books, the slots of its image, say of the target's threads: asked by the
 * proof that all are outside. The target can write there; the records are weighed against what the
 * stacks say.
 */
#pragma once

#include "attach/inject/image.h"
#include "attach/proof/quiesce.h"

struct books {
	const struct image *image;
	const struct proc *proc;
	bool same_numbers; /* its threads have the numbers that we know them by */
};

/* Asks once what would otherwise be asked for each thread, while that is held. */
struct books books_make(const struct image *image, const struct proc *proc);

/* The callbacks of struct quiesce_options; `context` is a struct books. */
raddr_t books_real(void *context, raddr_t entry);
enum quiesce_books books_of(void *context, const struct proc *of, pid_t tid);
size_t books_frames(void *context, const struct proc *of, pid_t tid,
	struct quiesce_frame ret[QUIESCE_FRAMES_MAX], bool *ret_abandoned);
