/* SPDX-License-Identifier: Apache-2.0
 *
 * The threads of a trace under each of their names: kernel ids, names with the time since when they
 * are valid, and the newest block of each thread.
 */
#pragma once

#include "format/array.h"
#include "format/map.h"
#include "analyzer/model/strings.h"

#define THREADS_MAX	  (1u << 20)
#define THREADS_NAMES_MAX 256u /* names of one thread; later ones count as the last */

/* A thread under one name. */
struct thread {
	uint32_t tid;
	uint32_t first; /* index of the thread under its first name, which identifies the thread */
	uint32_t next;	/* index of the same thread under its next name; 0: none */
	const char *name; /* NULL: heaptap never read it */
	uint32_t before;  /* index + 1 of the thread that used the agent's slot before this one; 0:
			     none */
	/* Only valid in `first`. */
	uint64_t newest;    /* address of its last allocation, or 0 */
	uint32_t names;	    /* number of its names */
	uint32_t changes;   /* index + 1 of its last change of name, 0: none */
	uint64_t named_tsc; /* time since when it has its first name */
};

/* From `since_tsc` on, events of the thread belong to index `thread`. */
struct thread_change {
	uint64_t since_tsc;
	uint32_t thread;
	uint32_t before; /* index + 1 of the previous change; 0: none */
};

/* Zero-initialised is empty and valid. An index stays the same for the life of the table. */
struct threads {
	struct thread *thread;
	size_t count, capacity;
	size_t tids; /* number of threads, regardless of names */
	struct map by_tid;
	struct thread_change *change;
	size_t change_count, change_capacity;
};

void threads_deinit(struct threads *threads);
/* Index of the thread `tid` under its name at `tsc`; adds it if it is new. The index is valid until
 * `*ret_until`, unless a later THREAD record changes it. Beyond THREADS_MAX all threads share the
 * last index. */
HT_MUST_CHECK
struct ht_err *threads_index(
	struct threads *threads, uint32_t tid, uint64_t tsc, uint32_t *ret, uint64_t *ret_until);
/* Notes that thread `before` has ended and thread `index` now uses its slot in the agent. */
void threads_succeed(struct threads *threads, uint32_t index, uint32_t before);
/* The name of a thread. If heaptap never read it: the name of the last named thread before it in
 * its slot, because short threads of a program are usually of one kind; else `fallback`, because a
 * thread inherits the name of its creator. `*ret_assumed`: the name is such a guess. */
const char *threads_shown_name(
	const struct threads *threads, uint32_t index, const char *fallback, bool *ret_assumed);
/* Takes a THREAD record. It may change the result of threads_index for its thread. */
HT_MUST_CHECK
struct ht_err *threads_name(
	struct threads *threads, struct strings *strings, const struct rec_thread *rec);
