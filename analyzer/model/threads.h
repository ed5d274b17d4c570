/* SPDX-License-Identifier: Apache-2.0
 *
 * The threads of a trace under each of their names: kernel ids, names and since when, and the
 * newest block of each thread.
 */
#pragma once

#include "analyzer/model/array.h"
#include "analyzer/model/map.h"
#include "analyzer/model/strings.h"

#define THREADS_MAX	  (1u << 20)
#define THREADS_NAMES_MAX 256u /* of one thread; later ones are taken for the last */

/* A thread under one name. */
struct thread {
	uint32_t tid;
	uint32_t first;	  /* index of the thread under its first name: it stands for the thread */
	uint32_t next;	  /* index of the thread under its next new name, 0: there is none */
	const char *name; /* NULL: no look has met it */
	uint32_t before;  /* index + 1 of the thread that had its slot before; 0: none */
	/* Of `first` alone. */
	uint64_t newest;    /* address of its last allocation, or 0 */
	uint32_t names;	    /* so many */
	uint32_t changes;   /* index + 1 of its last change of name, 0: none */
	uint64_t named_tsc; /* since when it has its first name */
};

/* From `since_tsc` on a thread is `thread`. */
struct thread_change {
	uint64_t since_tsc;
	uint32_t thread;
	uint32_t before; /* index + 1 of the one before */
};

/* Zero-initialised is empty and valid. An index stays the same for the life of the table. */
struct threads {
	struct thread *thread;
	size_t count, capacity;
	size_t tids; /* threads, each under all of its names */
	struct map by_tid;
	struct thread_change *change;
	size_t change_count, change_capacity;
};

void threads_deinit(struct threads *threads);
/* Index of the thread `tid` under the name that it has at `tsc`, made on first sight; `ret_until`
 * is when it may have another by what is known now. Beyond THREADS_MAX all share the last index. */
HT_MUST_CHECK
struct ht_err *threads_index(
	struct threads *threads, uint32_t tid, uint64_t tsc, uint32_t *ret, uint64_t *ret_until);
/* The thread `index` records in the slot of `before`, which has ended. */
void threads_succeed(struct threads *threads, uint32_t index, uint32_t before);
/* The name of a thread. Where no look has met it, that of the last one before it in its slot that
 * has a name: a program's short threads are mostly of one kind; else `fallback`, as a thread
 * inherits the name of its creator. `ret_assumed` says that this is so. */
const char *threads_shown_name(
	const struct threads *threads, uint32_t index, const char *fallback, bool *ret_assumed);
/* Takes a record. It may change what threads_index says of its thread. */
HT_MUST_CHECK
struct ht_err *threads_name(
	struct threads *threads, struct strings *strings, const struct rec_thread *rec);
