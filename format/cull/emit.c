/* SPDX-License-Identifier: Apache-2.0 */
#include "format/cull/emit.h"

#include <stdlib.h>

#include "format/array.h"

void emit_deinit(struct emit *emit)
{
	event_reencoder_deinit(&emit->encoder);
	free(emit->event);
	free(emit->stream);
	*emit = (struct emit){0};
}

static struct ht_err *reserve(struct emit *emit, uint32_t stream)
{
	if (!emit->event)
		emit->event = calloc(EMIT_EVENTS, sizeof(*emit->event));
	if (!emit->event)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for events");
	return ARRAY_RESERVE(
		emit->stream, emit->stream_capacity, (size_t)stream + 1, "event streams");
}

struct ht_err *emit_add(struct emit *emit, uint32_t stream, const struct event *event)
{
	if (emit->count == EMIT_EVENTS)
		HT_TRY(emit_flush(emit));
	HT_TRY(reserve(emit, stream));
	struct emit_stream *to = &emit->stream[stream];
	emit->event[emit->count++] = (struct emit_event){.event = *event, .stream = stream};
	const uint32_t number = (uint32_t)emit->count;
	if (to->last)
		emit->event[to->last - 1].next = number;
	else
		to->first = number;
	to->last = number;
	emit->counted += event_is_counted(event);
	return NULL;
}

/* Puts one piece with the events of a stream from `number` on. */
static struct ht_err *put_piece(struct emit *emit, uint32_t stream, uint32_t number)
{
	struct event_reencoder *encoder = &emit->encoder;
	uint32_t tid = 0;
	uint64_t events = 0;
	event_reencoder_begin(encoder);
	for (; number; number = emit->event[number - 1].next) {
		const struct emit_event *event = &emit->event[number - 1];
		if (!encoder->out.length || tid != event->event.tid)
			HT_TRY(event_reencoder_thread(encoder, event->event.tid, 0));
		tid = event->event.tid;
		HT_TRY(event_reencoder_put(encoder, &event->event, 0));
		events += event_is_counted(&event->event);
	}
	struct emit_stream *from = &emit->stream[stream];
	const struct rec rec = {.kind = REC_EVENTS,
		.events = {.slot = stream,
			.position = from->position,
			.flags = REC_EVENTS_RESTART,
			.body = bytes_of(encoder->out.data, encoder->out.length)}};
	from->position += encoder->out.length;
	return emit->put(emit->context, &rec, events);
}

struct ht_err *emit_flush(struct emit *emit)
{
	struct ht_err *err = NULL;
	for (size_t i = 0; i < emit->count && !err; i++) {
		const uint32_t stream = emit->event[i].stream;
		const uint32_t first = emit->stream[stream].first;
		emit->stream[stream].first = emit->stream[stream].last = 0;
		if (first)
			err = put_piece(emit, stream, first);
	}
	emit->count = 0;
	return err;
}
