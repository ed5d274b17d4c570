/* SPDX-License-Identifier: Apache-2.0
 *
 * Events that are not written yet because they are younger than the time of --cull, in the order of
 * their stamps. Any of them can be taken out.
 */
#pragma once

#include "format/bytes.h"
#include "format/event.h"

struct held {
	uint32_t before, after; /* neighbours; 0: none */
	uint32_t stream;
	/* For a held REALLOC_BEGIN whose outcome is not known yet, and for the held allocation of
	 * its old block: index of the stream + 1; otherwise 0. */
	uint32_t lane;
	uint64_t time_ns;  /* of the event, since the window's start */
	uint64_t first_ns; /* birth of the first block of the chain of reallocs, since the window's
			      start */
	bool is_listed;	   /* will be written even if its block ends early */
	struct event event;
	/* Not NULL: the element is not an event but this encoded REC_CULLED, owned; event.tsc is
	 * the stamp at which the interval of its sums began. */
	struct bytes_out *record;
};

/* Zero-initialised is empty and valid. Numbers of elements are never 0. */
struct held_queue {
	struct held *element;
	size_t used, capacity; /* elements in use or free */
	uint32_t first, last, free;
	uint64_t events; /* number of elements that are events (event_is_counted) */
};

void held_deinit(struct held_queue *queue);
/* Appends a copy of `held`; `*ret`: its number. */
HT_MUST_CHECK
struct ht_err *held_push(struct held_queue *queue, const struct held *held, uint32_t *ret);
/* Takes an element out; frees its record. */
void held_remove(struct held_queue *queue, uint32_t at);

static inline struct held *held_get(const struct held_queue *queue, uint32_t at)
{
	return &queue->element[at];
}
