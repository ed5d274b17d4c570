/* SPDX-License-Identifier: Apache-2.0
 *
 * When V8 may have put something else in the place of a BytecodeArray. It keeps these where only a
 * collection of all garbage frees and moves objects, and counts such collections, each before its
 * first effect. While the count stays what lies there stays.
 */
#pragma once

#include "attach/v8/heap.h"

/* The isolate of one thread. Zero-initialised is none. */
struct v8_collections {
	raddr_t isolate_at; /* the thread's word that says which isolate it is in; 0: unknown */
	raddr_t isolate, heap;
	raddr_t count_at;
};

/* Where a heap has its count, which the code that collects says; -1: it is not understood. */
HT_MUST_CHECK
struct ht_err *v8_collections_place(
	const struct proc *proc, const struct natives_v8 *code, int32_t *ret);
/* Finds the isolate that the thread is in. `place`: of the count. False: it is in none yet, or it
 * cannot be told. */
bool v8_collections_find(const struct v8_heap *heap, raddr_t thread_pointer, int32_t place,
	struct v8_collections *ret);
/* How often garbage was collected there. False: the thread has left the isolate, or it cannot be
 * read. */
bool v8_collections_count(
	const struct v8_heap *heap, const struct v8_collections *of, uint32_t *ret);
/* Does the object lie in that heap? */
bool v8_collections_own(
	const struct v8_heap *heap, const struct v8_collections *of, uint64_t object);
