/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/model/streams.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/model/array.h"
#include "analyzer/model/map.h"

struct piece {
	struct piece *next;
	size_t length;
	bool restart;
	uint8_t bytes[];
};

#define AHEAD 24u /* events that are decoded before their turn */

struct stream {
	struct event ahead[AHEAD]; /* from `next` to `end`: it is in the heap while there are any */
	unsigned next, end;
	struct bytes in; /* rest of the piece `first` */
	struct event_decoder decoder;
	struct piece *first, *last;
	uint32_t index;
	bool lost;	   /* waits for a restart */
	uint64_t expected; /* position of the next piece */
};

struct streams {
	streams_sink *sink;
	streams_scout *scout;
	void *context;
	struct stream **stream;
	size_t count, capacity;
	struct map by_slot;
	struct stream **heap; /* of ready streams, the oldest event first; as large as `stream` */
	size_t heap_count, heap_capacity;
	size_t waiting_bytes;
	struct streams_damage damage;
};

struct ht_err *streams_create(
	streams_sink *sink, streams_scout *scout, void *context, struct streams **ret)
{
	struct streams *streams = calloc(1, sizeof(*streams));
	if (!streams)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for event streams");
	streams->sink = sink;
	streams->scout = scout;
	streams->context = context;
	*ret = streams;
	return NULL;
}

static void drop_first(struct streams *streams, struct stream *stream)
{
	struct piece *piece = stream->first;
	stream->first = piece->next;
	streams->waiting_bytes -= piece->length;
	free(piece);
}

void streams_destroy(struct streams *streams)
{
	if (!streams)
		return;
	for (size_t i = 0; i < streams->count; i++) {
		while (streams->stream[i]->first)
			drop_first(streams, streams->stream[i]);
		free(streams->stream[i]);
	}
	free(streams->stream);
	free(streams->heap);
	map_deinit(&streams->by_slot);
	free(streams);
}

const struct streams_damage *streams_damage(const struct streams *streams)
{
	return &streams->damage;
}

/* --- one stream --------------------------------------------------------------------------- */

static bool is_ready(const struct stream *stream)
{
	return stream->next < stream->end;
}

static const struct event *next_event(const struct stream *stream)
{
	return &stream->ahead[stream->next];
}

/* Decodes the next event of the stream; false: there is none yet. */
static bool decode_one(struct streams *streams, struct stream *stream, struct event *ret)
{
	while (stream->first) {
		size_t left = bytes_left(&stream->in);
		switch (event_next(&stream->decoder, &stream->in, ret)) {
		case EVENT_OK:
			streams->scout(streams->context, ret);
			return true;
		case EVENT_MALFORMED:
			streams->damage.malformed++;
			streams->damage.skipped_bytes += left;
			break;
		case EVENT_NONE_LEFT:
			break;
		}
		drop_first(streams, stream);
		while (stream->first && !stream->first->restart && !stream->decoder.in_step) {
			streams->damage.skipped_bytes += stream->first->length;
			drop_first(streams, stream);
		}
		if (!stream->first)
			return false;
		stream->in = bytes_of(stream->first->bytes, stream->first->length);
		if (stream->first->restart)
			event_decoder_restart(&stream->decoder);
	}
	return false;
}

/* Fills `ahead` when it is used up. */
static void decode_ahead(struct streams *streams, struct stream *stream)
{
	if (is_ready(stream))
		return;
	stream->next = stream->end = 0;
	while (stream->end < AHEAD && decode_one(streams, stream, &stream->ahead[stream->end]))
		stream->end++;
}

static struct ht_err *find_stream(struct streams *streams, uint64_t slot, struct stream **ret)
{
	uint32_t index;
	if (map_get(&streams->by_slot, slot, &index)) {
		*ret = streams->stream[index];
		return NULL;
	}
	if (streams->count == STREAMS_MAX)
		return ht_err_new(HT_ERR_FORMAT,
			"the trace has more than %u event streams: it is damaged", STREAMS_MAX);
	struct ht_err *err = array_reserve(&streams->stream, &streams->capacity, streams->count + 1,
		sizeof(*streams->stream), "event streams");
	if (!err)
		err = array_reserve(&streams->heap, &streams->heap_capacity, streams->count + 1,
			sizeof(*streams->heap), "event streams");
	if (err)
		return err;
	struct stream *stream = calloc(1, sizeof(*stream));
	if (!stream)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for an event stream");
	stream->index = (uint32_t)streams->count;
	err = map_put(&streams->by_slot, slot, stream->index);
	if (err) {
		free(stream);
		return err;
	}
	streams->stream[streams->count++] = stream;
	*ret = stream;
	return NULL;
}

/* --- the heap ------------------------------------------------------------------------------ */

static bool older(const struct stream *a, const struct stream *b)
{
	if (next_event(a)->tsc != next_event(b)->tsc)
		return next_event(a)->tsc < next_event(b)->tsc;
	return a->index < b->index;
}

static void heap_push(struct streams *streams, struct stream *stream)
{
	size_t at = streams->heap_count++;
	while (at > 0 && older(stream, streams->heap[(at - 1) / 2])) {
		streams->heap[at] = streams->heap[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	streams->heap[at] = stream;
}

/* The top stream has a later event than before: lets it sink to its place. */
static void heap_sink(struct streams *streams)
{
	struct stream *stream = streams->heap[0];
	size_t at = 0;
	for (;;) {
		size_t child = 2 * at + 1;
		if (child + 1 < streams->heap_count &&
			older(streams->heap[child + 1], streams->heap[child]))
			child++;
		if (child >= streams->heap_count || !older(streams->heap[child], stream))
			break;
		streams->heap[at] = streams->heap[child];
		at = child;
	}
	streams->heap[at] = stream;
}

/* The oldest but the top of the heap; NULL: there is no other. */
static const struct stream *second_oldest(const struct streams *streams)
{
	if (streams->heap_count < 2)
		return NULL;
	return streams->heap_count > 2 && older(streams->heap[2], streams->heap[1])
		       ? streams->heap[2]
		       : streams->heap[1];
}

/* Hands out the events of the top stream that come before those of all others and before `tsc`. */
static struct ht_err *pop_run(struct streams *streams, uint64_t tsc)
{
	struct stream *stream = streams->heap[0];
	const struct stream *second = second_oldest(streams);
	struct ht_err *err;
	do {
		err = streams->sink(streams->context, stream->index, next_event(stream));
		stream->next++;
		decode_ahead(streams, stream);
	} while (!err && is_ready(stream) && next_event(stream)->tsc < tsc &&
		 (!second || older(stream, second)));
	if (!is_ready(stream)) {
		streams->heap_count--;
		streams->heap[0] = streams->heap[streams->heap_count];
	}
	if (streams->heap_count)
		heap_sink(streams);
	return err;
}

struct ht_err *streams_release(struct streams *streams, uint64_t tsc)
{
	while (streams->heap_count && next_event(streams->heap[0])->tsc < tsc) {
		struct ht_err *err = pop_run(streams, tsc);
		if (err)
			return err;
	}
	return NULL;
}

struct ht_err *streams_finish(struct streams *streams)
{
	while (streams->heap_count) {
		struct ht_err *err = pop_run(streams, UINT64_MAX);
		if (err)
			return err;
	}
	return NULL;
}

/* --- arriving pieces ------------------------------------------------------------------------ */

static void note_position(
	struct streams *streams, struct stream *stream, const struct rec_events *piece)
{
	if (piece->position != stream->expected) {
		streams->damage.gaps++;
		if (piece->position > stream->expected)
			streams->damage.missing_bytes += piece->position - stream->expected;
		stream->lost = true;
	}
	stream->expected = piece->position + piece->body.length;
	if (piece->flags & REC_EVENTS_RESTART)
		stream->lost = false;
}

static struct ht_err *queue_piece(
	struct streams *streams, struct stream *stream, const struct rec_events *rec)
{
	struct piece *piece = malloc(sizeof(*piece) + rec->body.length);
	if (!piece)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for waiting events");
	*piece = (struct piece){
		.length = rec->body.length,
		.restart = rec->flags & REC_EVENTS_RESTART,
	};
	memcpy(piece->bytes, rec->body.data, rec->body.length);
	streams->waiting_bytes += piece->length;
	if (stream->first) {
		stream->last->next = piece;
	} else {
		stream->first = piece;
		stream->in = bytes_of(piece->bytes, piece->length);
		if (piece->restart)
			event_decoder_restart(&stream->decoder);
	}
	stream->last = piece;
	return NULL;
}

struct ht_err *streams_add(struct streams *streams, const struct rec_events *piece)
{
	struct stream *stream = NULL;
	struct ht_err *err = find_stream(streams, piece->slot, &stream);
	if (err)
		return err;
	note_position(streams, stream, piece);
	bool restart = piece->flags & REC_EVENTS_RESTART;
	if (!stream->first && !stream->decoder.in_step && !restart)
		stream->lost = true;
	if (stream->lost || piece->body.length == 0) {
		streams->damage.skipped_bytes += piece->body.length;
		return NULL;
	}
	err = queue_piece(streams, stream, piece);
	if (err)
		return err;
	if (!is_ready(stream)) {
		decode_ahead(streams, stream);
		if (is_ready(stream))
			heap_push(streams, stream);
	}
	if (streams->waiting_bytes <= STREAMS_WAITING_BYTES)
		return NULL;
	streams->damage.early++;
	return streams_finish(streams);
}
