/* SPDX-License-Identifier: Apache-2.0
 *
 * When V8 may have put something else in the place of a BytecodeArray. It keeps these where only a
 * collection of all garbage frees and moves objects, and counts such collections, each before its
 * first effect. While the count stays what lies there stays, from the end of the last one on: until
 * then the heap notes that it is within one.
 */
#pragma once

#include "attach/thread/same_thread.h"
#include "attach/v8/heap.h"

/* Where a heap has its count, and whether it is within a collection (0: in none). */
struct v8_places {
	int32_t count, state;
};

/* The isolate of one thread. Zero-initialised is none. */
struct v8_collections {
	/* Whose it is; NULL: the first thread's, and no other ever has its pointer. */
	const struct same_thread *thread;
	raddr_t isolate_at; /* the thread's word that says which isolate it is in; 0: unknown */
	raddr_t isolate, heap;
	raddr_t count_at, state_at;
};

/* What the code that collects says of them. False: it is not understood. */
HT_MUST_CHECK
struct ht_err *v8_collections_places(const struct proc *proc, const struct natives_v8 *code,
	struct v8_places *ret, bool *ret_found);
/* Finds the isolate that the thread is in. `thread` is borrowed. False: it is in none yet, or it
 * cannot be told. */
bool v8_collections_find(const struct v8_heap *heap, raddr_t thread_pointer,
	const struct same_thread *thread, const struct v8_places *places,
	struct v8_collections *ret);
/* How often garbage was collected there. False: the thread has left the isolate, or has ended, or
 * it cannot be read. */
bool v8_collections_count(
	const struct v8_heap *heap, const struct v8_collections *of, uint32_t *ret);
/* Is no collection at work? The count that was read before this is then of one that is over. */
bool v8_collections_are_over(const struct v8_heap *heap, const struct v8_collections *of);
/* Does the object lie in that heap? */
bool v8_collections_own(
	const struct v8_heap *heap, const struct v8_collections *of, uint64_t object);
