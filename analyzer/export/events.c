/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/export/events.h"

#include <errno.h>
#include <unistd.h>

#include "analyzer/views/select.h"

struct events {
	const struct view *view;
	const struct model_observer *observer;
	struct select *select; /* NULL: every stack and thread */
	uint64_t from_ns, to_ns;
};

static bool is_in_window(const struct events *events, uint64_t time_ns)
{
	return events->from_ns <= time_ns && time_ns < events->to_ns;
}

/* Whether the view has the event of `block`; then `*ret` is the call, with its time since the start
 * of the window. */
static bool has_event(const struct events *events, const struct replay_call *call,
	const struct live_block *block, struct replay_call *ret)
{
	const struct query *query = &events->view->query;
	*ret = *call;
	ret->time_ns -= events->from_ns;
	return is_in_window(events, call->time_ns) && is_in_window(events, block->birth_ns) &&
	       query->min_size <= block->size && block->size <= query->max_size &&
	       (!events->select || select_has(events->select, block->stack, block->thread));
}

static struct ht_err *allocated(
	void *context, const struct replay_call *call, struct live_block *block)
{
	const struct events *events = context;
	const struct replay_observer *to = &events->observer->replay;
	struct replay_call moved;
	return to->allocated && has_event(events, call, block, &moved)
		       ? to->allocated(to->context, &moved, block)
		       : NULL;
}

static struct ht_err *freed(void *context, const struct replay_call *call,
	const struct live_block *block, bool temporary)
{
	const struct events *events = context;
	const struct replay_observer *to = &events->observer->replay;
	struct replay_call moved;
	return to->freed && has_event(events, call, block, &moved)
		       ? to->freed(to->context, &moved, block, temporary)
		       : NULL;
}

static struct ht_err *before_freed(
	void *context, const struct replay_call *call, uint64_t usable_bytes)
{
	(void)context;
	(void)call;
	(void)usable_bytes;
	return NULL;
}

static struct ht_err *memory(void *context, uint64_t time_ns, const struct memory *sample)
{
	const struct events *events = context;
	const struct model_observer *to = events->observer;
	if (!to->memory || !is_in_window(events, time_ns))
		return NULL;
	return to->memory(to->replay.context, time_ns - events->from_ns, sample);
}

uint64_t events_end_ns(const struct view *view)
{
	return view->to_ns - view->from_ns;
}

struct ht_err *events_read(const struct export_job *job, const struct model_observer *observer)
{
	const struct view *view = job->view;
	/* The last bucket of the cube includes all later events, so a window up to it has no end.
	 */
	const bool has_end = view->window.to != view->analysis->cube.timeline.count;
	struct events events = {
		.view = view,
		.observer = observer,
		.from_ns = view->from_ns,
		.to_ns = has_end ? view->to_ns : UINT64_MAX,
	};
	const struct model_observer own = {
		.replay = {.context = &events,
			.allocated = allocated,
			.freed = freed,
			.before_freed = before_freed},
		.memory = memory,
	};
	/* Limit the model to the bytes that the analysis has read: the trace may have grown since.
	 */
	struct model model = {.limit_bytes = view->analysis->model.seen_bytes};
	struct ht_err *err = NULL;
	if (lseek(job->fd, job->start, SEEK_SET) < 0)
		return ht_err_sys(errno, "cannot read %s again", job->name);
	if (query_filters_stacks(&view->query))
		err = select_create(view->analysis, &view->frames, &view->query, &events.select);
	HT_THEN(err, model_load(&model, job->fd, job->name, &own));
	model_deinit(&model);
	select_destroy(events.select);
	return err;
}
