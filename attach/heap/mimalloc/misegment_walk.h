/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks mimalloc's segments (2.x) of all threads, including those that have ended. A segment begins
 * at a multiple of 32 MiB with the descriptions of its pages, which say how many blocks are handed
 * out. Its cookie, a random number combined with its address, identifies it. Blocks freed by
 * another thread wait in lists, and the descriptions count them until their own thread takes them
 * back; the walk subtracts them.
 */
#pragma once

#include "attach/heap/mimalloc/misegment.h"
#include "attach/heap/view/threads.h"

/* `ret`: zero-initialised, or an earlier walk, which it replaces. Free with miwalk_deinit. */
HT_MUST_CHECK
struct ht_err *misegment_walk(struct view *view, const struct miheap *first,
	const struct threads *threads, struct miwalk *ret);
