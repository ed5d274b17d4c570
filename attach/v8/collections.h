/* SPDX-License-Identifier: Apache-2.0
 *
 * Tells when V8 may have put another object in the place of a BytecodeArray. V8 keeps those in a
 * space where only a full garbage collection frees and moves objects. It counts full collections,
 * each before its first effect, and marks the heap while one runs. So while the count stays,
 * counted from the end of the last collection, the contents of the space stay too.
 */
#pragma once

#include "attach/thread/same_thread.h"
#include "attach/v8/heap.h"

/* Offsets in a heap of its count of full collections and its state (0: no collection runs). */
struct v8_places {
	int32_t count, state;
};

/* The isolate of one thread. Zero-initialised: none. */
struct v8_collections {
	/* the thread; NULL: the main thread, whose pointer no other thread gets */
	const struct same_thread *thread;
	raddr_t isolate_at; /* the thread's word with its current isolate; 0: unknown */
	raddr_t isolate, heap;
	raddr_t count_at, state_at;
};

/* Reads the places from the code of the collector. `*ret_found` is false if heaptap does not
 * understand that code. */
HT_MUST_CHECK
struct ht_err *v8_collections_places(const struct proc *proc, const struct natives_v8 *code,
	struct v8_places *ret, bool *ret_found);
/* Finds the current isolate of the thread. Borrows `thread`. False: in none yet, or unknown. */
bool v8_collections_find(const struct v8_heap *heap, raddr_t thread_pointer,
	const struct same_thread *thread, const struct v8_places *places,
	struct v8_collections *ret);
/* Reads the number of collections. False: the thread has left the isolate or ended, or a read
 * failed. */
bool v8_collections_count(
	const struct v8_heap *heap, const struct v8_collections *of, uint32_t *ret);
/* Is no collection running? Then one that was counted before this call is over. */
bool v8_collections_are_over(const struct v8_heap *heap, const struct v8_collections *of);
/* Does the object belong to that heap? */
bool v8_collections_own(
	const struct v8_heap *heap, const struct v8_collections *of, uint64_t object);
