/* SPDX-License-Identifier: Apache-2.0 */
#include "format/cull/held.h"

#include <stdlib.h>

#include "format/array.h"

static bool is_counted(const struct held *held)
{
	return !held->record && event_is_counted(&held->event);
}

static void drop_record(struct held *held)
{
	if (held->record)
		bytes_out_deinit(held->record);
	free(held->record);
	held->record = NULL;
}

void held_deinit(struct held_queue *queue)
{
	for (uint32_t at = queue->first; at; at = queue->element[at].after)
		drop_record(&queue->element[at]);
	free(queue->element);
	*queue = (struct held_queue){0};
}

static struct ht_err *take_place(struct held_queue *queue, uint32_t *ret)
{
	*ret = queue->free;
	if (queue->free) {
		queue->free = queue->element[queue->free].after;
		return NULL;
	}
	/* Number 0 means no element, so element[0] is never used. */
	if (queue->used == UINT32_MAX - 1 ||
		!ARRAY_HAS_ROOM(queue->element, queue->used + 1, queue->capacity, 1024))
		return ht_err_new(HT_ERR_NOMEM, "out of memory for %zu young blocks", queue->used);
	*ret = (uint32_t)++queue->used;
	return NULL;
}

struct ht_err *held_push(struct held_queue *queue, const struct held *held, uint32_t *ret)
{
	HT_TRY(take_place(queue, ret));
	struct held *place = &queue->element[*ret];
	*place = *held;
	place->before = queue->last;
	place->after = 0;
	if (queue->last)
		queue->element[queue->last].after = *ret;
	else
		queue->first = *ret;
	queue->last = *ret;
	queue->events += is_counted(held);
	return NULL;
}

void held_remove(struct held_queue *queue, uint32_t at)
{
	struct held *held = &queue->element[at];
	queue->events -= is_counted(held);
	drop_record(held);
	if (held->before)
		queue->element[held->before].after = held->after;
	else
		queue->first = held->after;
	if (held->after)
		queue->element[held->after].before = held->before;
	else
		queue->last = held->before;
	held->after = queue->free;
	queue->free = at;
}
