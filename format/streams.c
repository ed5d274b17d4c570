/* SPDX-License-Identifier: Apache-2.0 */
#include "format/streams.h"

#include <stdlib.h>
#include <string.h>

#include "format/array.h"
#include "format/columns.h"
#include "format/map.h"

struct piece {
	struct piece *next;
	size_t length;	     /* of `bytes` */
	size_t events_bytes; /* bytes of the events in it, which may be in columns */
	bool restart, is_columns;
	uint8_t bytes[];
};

#define AHEAD 64u /* events that are decoded before their turn */
_Static_assert(AHEAD <= COLUMNS_EVENTS_MAX, "columns fill a stream's events at once");

struct stream {
	struct event ahead[AHEAD]; /* valid from `next` to `end`; the stream is in the heap while
				      there are any */
	unsigned next, end;
	struct bytes in;		/* unread rest of the piece `first`, if `columns` is NULL */
	struct columns_events *columns; /* reads `first` if that is in columns; otherwise NULL */
	struct event_decoder decoder;
	struct piece *first, *last;
	uint32_t index;
	bool lost;	   /* a gap or damage: waits for a restart */
	uint64_t expected; /* position of the next piece */
};

struct streams {
	streams_sink *sink;
	streams_scout *scout;
	void *context;
	struct stream **stream;
	size_t count, capacity;
	struct map by_slot;
	/* heap of ready streams, the oldest event first; as large as `stream` */
	struct stream **heap;
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
	columns_events_destroy(stream->columns);
	stream->columns = NULL;
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

/* Begins to read the first waiting piece of a stream. */
static struct ht_err *open_first(struct stream *stream)
{
	const struct piece *piece = stream->first;
	stream->in = bytes_of(piece->bytes, piece->length);
	if (piece->restart)
		event_decoder_restart(&stream->decoder);
	return piece->is_columns ? columns_events_create(stream->in, &stream->columns) : NULL;
}

/* Moves to the next piece that can be decoded. */
static struct ht_err *next_piece(struct streams *streams, struct stream *stream)
{
	drop_first(streams, stream);
	while (stream->first && !stream->first->restart && !stream->decoder.in_step) {
		streams->damage.skipped_bytes += stream->first->events_bytes;
		drop_first(streams, stream);
	}
	return stream->first ? open_first(stream) : NULL;
}

/* Appends decoded events of the first piece to `ahead`. `*ret_lost`: with EVENT_MALFORMED, the
 * bytes of the piece that are lost. */
static enum event_result decode_piece(struct stream *stream, size_t *ret_lost)
{
	struct event *free_place = &stream->ahead[stream->end];
	enum event_result result = EVENT_OK;
	size_t count = 0;
	if (stream->columns) {
		result = columns_events_next(
			stream->columns, &stream->decoder, free_place, AHEAD - stream->end, &count);
		stream->end += (unsigned)count;
		*ret_lost = columns_events_left(stream->columns);
		return result;
	}
	while (result == EVENT_OK && stream->end < AHEAD) {
		*ret_lost = bytes_left(&stream->in);
		result = event_next(&stream->decoder, &stream->in, &stream->ahead[stream->end]);
		stream->end += result == EVENT_OK;
	}
	return result;
}

/* Refills `ahead` if it is empty. */
static struct ht_err *decode_ahead(struct streams *streams, struct stream *stream)
{
	if (is_ready(stream))
		return NULL;
	stream->next = stream->end = 0;
	while (stream->first && stream->end < AHEAD) {
		size_t lost = 0;
		const enum event_result result = decode_piece(stream, &lost);
		if (result == EVENT_MALFORMED) {
			streams->damage.malformed++;
			streams->damage.skipped_bytes += lost;
		}
		if (result != EVENT_OK)
			HT_TRY(next_piece(streams, stream));
	}
	if (stream->end)
		streams->scout(streams->context, stream->ahead, stream->end);
	return NULL;
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
	if (!ARRAY_HAS_ROOM(streams->stream, streams->count, streams->capacity, 16) ||
		!ARRAY_HAS_ROOM(streams->heap, streams->count, streams->heap_capacity, 16))
		return ht_err_new(HT_ERR_NOMEM, "out of memory for event streams");
	struct stream *stream = calloc(1, sizeof(*stream));
	if (!stream)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for an event stream");
	stream->index = (uint32_t)streams->count;
	struct ht_err *err = map_put(&streams->by_slot, slot, stream->index);
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

/* Moves the top stream, whose next event is later now, down to its place. */
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

/* The stream with the second oldest event; NULL: none. */
static const struct stream *second_oldest(const struct streams *streams)
{
	if (streams->heap_count < 2)
		return NULL;
	return streams->heap_count > 2 && older(streams->heap[2], streams->heap[1])
		       ? streams->heap[2]
		       : streams->heap[1];
}

/* Number of decoded events of the top stream that come before those of `second` and before `tsc`:
 * at least one. */
static size_t count_run(const struct stream *stream, const struct stream *second, uint64_t tsc)
{
	const struct event *event = next_event(stream);
	const size_t left = stream->end - stream->next;
	size_t count = 1;
	if (second) {
		const uint64_t limit = next_event(second)->tsc;
		/* At equal stamps the stream with the lower index goes first. */
		const uint64_t end = stream->index < second->index ? limit + 1 : limit;
		tsc = end < tsc ? end : tsc;
	}
	while (count < left && event[count].tsc < tsc)
		count++;
	return count;
}

/* Passes on the events of the top stream that come before those of all others and before `tsc`. */
static struct ht_err *pop_run(struct streams *streams, uint64_t tsc)
{
	struct stream *stream = streams->heap[0];
	const struct stream *second = second_oldest(streams);
	struct ht_err *err;
	do {
		const size_t count = count_run(stream, second, tsc);
		err = streams->sink(streams->context, stream->index, next_event(stream), count);
		stream->next += (unsigned)count;
		HT_THEN(err, decode_ahead(streams, stream));
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
	while (streams->heap_count && next_event(streams->heap[0])->tsc < tsc)
		HT_TRY(pop_run(streams, tsc));
	return NULL;
}

struct ht_err *streams_finish(struct streams *streams)
{
	while (streams->heap_count)
		HT_TRY(pop_run(streams, UINT64_MAX));
	return NULL;
}

/* --- arriving pieces ------------------------------------------------------------------------ */

static void note_position(struct streams *streams, struct stream *stream,
	const struct rec_events *piece, size_t events_bytes)
{
	if (piece->position != stream->expected) {
		streams->damage.gaps++;
		if (piece->position > stream->expected)
			streams->damage.missing_bytes += piece->position - stream->expected;
		stream->lost = true;
	}
	stream->expected = piece->position + events_bytes;
	if (piece->flags & REC_EVENTS_RESTART)
		stream->lost = false;
}

static struct ht_err *queue_piece(struct streams *streams, struct stream *stream,
	const struct rec_events *events, size_t events_bytes, bool is_columns)
{
	const size_t length = bytes_left(&events->body);
	const size_t room = is_columns ? COLUMNS_ROOM : 0;
	struct piece *piece = malloc(sizeof(*piece) + length + room);
	if (!piece)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for waiting events");
	*piece = (struct piece){
		.length = length,
		.events_bytes = events_bytes,
		.restart = events->flags & REC_EVENTS_RESTART,
		.is_columns = is_columns,
	};
	memcpy(piece->bytes, events->body.at, length);
	memset(piece->bytes + length, 0, room);
	streams->waiting_bytes += piece->length;
	if (stream->first) {
		stream->last->next = piece;
		stream->last = piece;
		return NULL;
	}
	stream->first = stream->last = piece;
	return open_first(stream);
}

struct ht_err *streams_add(struct streams *streams, const struct rec *rec)
{
	const struct rec_events *events = &rec->events;
	const bool is_columns = rec->kind == REC_COLUMNS;
	const size_t events_bytes = is_columns ? events->piece_bytes : bytes_left(&events->body);
	struct stream *stream = NULL;
	struct ht_err *err = NULL;
	HT_TRY(find_stream(streams, events->slot, &stream));
	note_position(streams, stream, events, events_bytes);
	if (!stream->first && !stream->decoder.in_step && !(events->flags & REC_EVENTS_RESTART))
		stream->lost = true;
	if (stream->lost || events_bytes == 0) {
		streams->damage.skipped_bytes += events_bytes;
		return NULL;
	}
	HT_TRY(queue_piece(streams, stream, events, events_bytes, is_columns));
	if (!is_ready(stream)) {
		err = decode_ahead(streams, stream);
		if (is_ready(stream))
			heap_push(streams, stream);
	}
	if (err || streams->waiting_bytes <= STREAMS_WAITING_BYTES)
		return err;
	streams->damage.early++;
	return streams_finish(streams);
}
