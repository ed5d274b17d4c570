/* SPDX-License-Identifier: Apache-2.0
 *
 * The threads of a trace: kernel ids, names, and the newest block of each.
 */
#pragma once

#include "analyzer/model/array.h"
#include "analyzer/model/map.h"
#include "analyzer/model/strings.h"

#define THREADS_MAX (1u << 20)

struct thread {
	uint32_t tid;
	const char *name; /* the last one seen, or NULL */
	uint64_t newest;  /* address of its last allocation, or 0 */
};

/* Zero-initialised is empty and valid. An index stays the same for the life of the table. */
struct threads {
	struct thread *thread;
	size_t count, capacity;
	struct map by_tid;
};

void threads_deinit(struct threads *threads);
/* Index of the thread `tid`, made on first sight. Beyond THREADS_MAX all share the last index. */
HT_MUST_CHECK
struct ht_err *threads_index(struct threads *threads, uint32_t tid, uint32_t *ret);
HT_MUST_CHECK
struct ht_err *threads_name(
	struct threads *threads, struct strings *strings, const struct rec_thread *rec);
