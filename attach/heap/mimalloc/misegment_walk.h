/* SPDX-License-Identifier: Apache-2.0
 *
 * mimalloc's segments (its 2.x), of all threads, those that have ended among them: each begins at a
 * multiple of 32 MiB with what tells of its pages how many of their blocks are handed out. It is
 * known by its cookie, a random number by its place. Blocks that another thread has freed wait in
 * lists, and are counted as handed out until their own thread looks there.
 */
#pragma once

#include "attach/heap/mimalloc/misegment.h"
#include "attach/heap/view/threads.h"

/* `ret` is zero-initialised, or of a walk before: what it holds is given up. */
HT_MUST_CHECK
struct ht_err *misegment_walk(struct view *view, const struct miheap *first,
	const struct threads *threads, struct miwalk *ret);
