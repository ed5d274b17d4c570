/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "format/columns.h"
#include "format/columns_layout.h"
#include "format/record.h"

struct shape {
	uint8_t tags[TAG_BYTES];
	uint8_t time_mask; /* 0 where the time is left out */
	struct widths widths;
};

struct source {
	struct shape shape[SHAPES_MAX + 1];
	unsigned int shape_count; /* shapes are numbered from 1 */
	size_t piece_bytes;
	size_t column_bytes[COLUMN_COUNT];
	struct bytes columns; /* all columns, one after the other */
};

/* The start of the unread rest of each column. */
struct rest {
	const uint8_t *at[COLUMN_COUNT];
};

static bool take_shapes(struct bytes *in, uint64_t count, struct source *ret)
{
	const uint8_t *tags;
	memset(ret->shape, 0, sizeof(ret->shape));
	if (count > SHAPES_MAX || !bytes_take(in, count * TAG_BYTES, &tags))
		return false;
	for (uint64_t i = 1; i <= count; i++, tags += TAG_BYTES) {
		bool is_left_out = tags[0] & TIME_LEFT_OUT;
		uint8_t tag0 = tags[0] & (uint8_t)~TIME_LEFT_OUT;
		struct widths widths = widths_of(tag0, tags[1]);
		if (!widths.event || (is_left_out && widths.time != 1))
			return false;
		ret->shape[i].tags[0] = tag0;
		ret->shape[i].tags[1] = tags[1];
		ret->shape[i].time_mask = is_left_out ? 0 : 0xff;
		ret->shape[i].widths = widths;
	}
	return true;
}

static bool take_source(struct bytes in, struct source *ret)
{
	uint64_t length, shape_count, left = bytes_left(&in);
	if (!bytes_uleb(&in, &length) || length > TRACE_RECORD_MAX ||
		!bytes_uleb(&in, &shape_count))
		return false;
	ret->piece_bytes = length;
	ret->shape_count = (unsigned int)shape_count;
	for (unsigned int i = 0; i < COLUMN_COUNT; i++) {
		if (!bytes_uleb(&in, &length) || length > left)
			return false;
		ret->column_bytes[i] = length;
		left -= length;
	}
	if (!take_shapes(&in, shape_count, ret))
		return false;
	ret->columns = in;
	for (unsigned int i = 0; i < COLUMN_COUNT; i++) {
		const uint8_t *column;
		if (!bytes_take(&in, ret->column_bytes[i], &column))
			return false;
	}
	return !bytes_left(&in);
}

static inline void take_field(uint8_t *to, struct rest *rest, enum column column, size_t width)
{
	memcpy(to, rest->at[column], column == COLUMN_STACK ? sizeof(uint32_t) : WORD_BYTES);
	rest->at[column] += width;
}

/* Restores the next event at `to`, where EVENT_ROOM bytes must be writable. Returns its end; NULL
 * if the columns hold no valid event. */
static inline uint8_t *take_event(const struct source *source, struct rest *rest, uint8_t *to)
{
	uint8_t number = *rest->at[COLUMN_SHAPE]++;
	const struct widths widths = source->shape[number].widths;
	const uint8_t time_mask = source->shape[number].time_mask;
	if (ht_unlikely(!widths.event)) {
		size_t length = number ? 0 : event_bytes(rest->at[COLUMN_OTHER]);
		memcpy(to, rest->at[COLUMN_OTHER], EVENT_ROOM);
		rest->at[COLUMN_OTHER] += length;
		return length ? to + length : NULL;
	}
	memcpy(to, source->shape[number].tags, TAG_BYTES);
	to += TAG_BYTES;
	take_field(to, rest, COLUMN_TIME, widths.time & time_mask);
	*to &= time_mask;
	to += widths.time;
	take_field(to, rest, COLUMN_ADDR, widths.addr);
	to += widths.addr;
	take_field(to, rest, COLUMN_SIZE, widths.size);
	to += widths.size;
	take_field(to, rest, COLUMN_STACK, widths.stack);
	return to + widths.stack;
}

/* Restores the piece at `to`, which must have EVENT_ROOM bytes more than the piece. The columns
 * begin at `from`, with EVENT_ROOM bytes readable behind them. */
static bool join(const struct source *source, const uint8_t *from, uint8_t *to)
{
	const uint8_t *end[COLUMN_COUNT], *piece_end = to + source->piece_bytes;
	struct rest rest;
	for (unsigned int i = 0; i < COLUMN_COUNT; i++) {
		rest.at[i] = from;
		from += source->column_bytes[i];
		end[i] = from;
	}
	/* A read past a column reads the next one or the room behind; the check after it notices at
	 * once. */
	while (rest.at[COLUMN_SHAPE] < end[COLUMN_SHAPE]) {
		to = take_event(source, &rest, to);
		if (!to || to > piece_end || rest.at[COLUMN_TIME] > end[COLUMN_TIME] ||
			rest.at[COLUMN_ADDR] > end[COLUMN_ADDR] ||
			rest.at[COLUMN_SIZE] > end[COLUMN_SIZE] ||
			rest.at[COLUMN_STACK] > end[COLUMN_STACK] ||
			rest.at[COLUMN_OTHER] > end[COLUMN_OTHER])
			return false;
	}
	for (unsigned int i = 0; i < COLUMN_COUNT; i++) {
		if (rest.at[i] != end[i])
			return false;
	}
	return to == piece_end;
}

static struct ht_err *malformed(struct bytes columns)
{
	return ht_err_new(HT_ERR_FORMAT, "malformed columns of %zu bytes", bytes_left(&columns));
}

struct ht_err *columns_decode(
	struct bytes columns, struct bytes_out *scratch, struct bytes_out *out)
{
	struct source source;
	bool is_sound = take_source(columns, &source);
	scratch->length = 0;
	if (is_sound) {
		HT_TRY(bytes_out_put(scratch, source.columns.at, bytes_left(&source.columns)));
		HT_TRY(bytes_out_reserve(scratch, EVENT_ROOM));
		HT_TRY(bytes_out_reserve(out, source.piece_bytes + EVENT_ROOM));
		memset(scratch->data + scratch->length, 0, EVENT_ROOM);
		is_sound = join(&source, scratch->data, out->data + out->length);
	}
	if (!is_sound)
		return malformed(columns);
	out->length += source.piece_bytes;
	return NULL;
}

/* --- decoding events without restoring the piece --- */

/* A shape's field widths, and for each field the mask that cuts it out of a loaded word. */
struct fields {
	uint64_t time_mask, addr_mask, size_mask;
	uint32_t stack_mask;
	uint8_t kind, hook;
	uint8_t time, addr, size, stack; /* bytes in the columns */
	uint8_t event;			 /* bytes in the piece; 0: there is no such shape */
	bool is_recent;			 /* the address is an index of recent ones */
};

struct columns_events {
	const uint8_t *at[COLUMN_COUNT], *end[COLUMN_COUNT];
	size_t piece_left;	  /* bytes */
	unsigned int shape_count; /* elements of `fields`; number 0 is for events without a shape */
	struct fields fields[];
};

void columns_events_destroy(struct columns_events *events)
{
	free(events);
}

struct ht_err *columns_length(struct bytes columns, size_t *ret)
{
	struct source source;
	if (!take_source(columns, &source))
		return malformed(columns);
	*ret = source.piece_bytes;
	return NULL;
}

static uint64_t mask_of(unsigned int bytes)
{
	return bytes ? UINT64_MAX >> (64 - 8 * bytes) : 0;
}

static struct fields fields_of(const struct shape *shape)
{
	const struct widths *widths = &shape->widths;
	const uint8_t time = widths->time & shape->time_mask;
	return (struct fields){
		.time_mask = mask_of(time),
		.addr_mask = mask_of(widths->addr),
		.size_mask = mask_of(widths->size),
		.stack_mask = (uint32_t)mask_of(widths->stack),
		.kind = shape->tags[0] & 7,
		.hook = shape->tags[1] >> 4,
		.time = time,
		.addr = widths->addr,
		.size = widths->size,
		.stack = widths->stack,
		.event = widths->event,
		.is_recent = widths->addr == 1,
	};
}

struct ht_err *columns_events_create(struct bytes columns, struct columns_events **ret)
{
	struct source source;
	if (!take_source(columns, &source))
		return malformed(columns);
	struct columns_events *events =
		calloc(1, sizeof(*events) + (source.shape_count + 1) * sizeof(*events->fields));
	if (!events)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for columns of events");
	const uint8_t *at = source.columns.at;
	for (unsigned int i = 0; i < COLUMN_COUNT; i++) {
		events->at[i] = at;
		at += source.column_bytes[i];
		events->end[i] = at;
	}
	events->piece_left = source.piece_bytes;
	events->shape_count = source.shape_count + 1;
	for (unsigned int i = 1; i < events->shape_count; i++)
		events->fields[i] = fields_of(&source.shape[i]);
	*ret = events;
	return NULL;
}

static inline uint64_t take_masked(const uint8_t **at, uint64_t mask, size_t width)
{
	uint64_t word;
	memcpy(&word, *at, sizeof(word));
	*at += width;
	return word & mask;
}

static inline uint32_t take_stack(const uint8_t **at, uint32_t mask, size_t width)
{
	uint32_t word;
	memcpy(&word, *at, sizeof(word));
	*at += width;
	return word & mask;
}

/* Decodes at most `max` events, up to the first without a shape; may read past a column's end.
 * Returns their number; `*ret_sound` is false if the next event is malformed. */
static size_t take_shaped(struct columns_events *events, struct event_decoder *decoder,
	struct event *restrict ret, size_t max, bool *ret_sound)
{
	const struct fields *shapes = events->fields;
	const unsigned int shape_count = events->shape_count;
	const uint8_t *shape = events->at[COLUMN_SHAPE], *time = events->at[COLUMN_TIME];
	const uint8_t *addr = events->at[COLUMN_ADDR], *size = events->at[COLUMN_SIZE];
	const uint8_t *stack = events->at[COLUMN_STACK];
	const uint32_t tid = decoder->tid;
	uint64_t tsc = decoder->tsc, place = decoder->addr;
	size_t count = 0, piece_left = events->piece_left;
	bool is_sound = true;
	for (; count < max; count++) {
		const struct fields *fields = &shapes[*shape];
		if (ht_unlikely(*shape >= shape_count || !fields->event))
			break;
		const uint64_t units = take_masked(&time, fields->time_mask, fields->time);
		const uint64_t later = tsc + (units << ABI_TIME_SHIFT);
		is_sound = units <= UINT64_MAX >> ABI_TIME_SHIFT && later >= tsc;
		if (ht_unlikely(!is_sound))
			break;
		tsc = later;
		const uint64_t word = take_masked(&addr, fields->addr_mask, fields->addr);
		const uint64_t recent = decoder->recent[word % ABI_RECENT_COUNT];
		const uint64_t near = place + abi_addr_unfold(word);
		place = fields->is_recent ? recent : near;
		if (place % 2 == 0)
			decoder->recent[abi_recent_index(place)] = place;
		ret[count] = (struct event){.kind = fields->kind,
			.hook = fields->hook,
			.tid = tid,
			.tsc = tsc,
			.addr = place,
			.size = take_masked(&size, fields->size_mask, fields->size),
			.stack = take_stack(&stack, fields->stack_mask, fields->stack)};
		shape++;
		piece_left -= fields->event;
	}
	events->at[COLUMN_SHAPE] = shape;
	events->at[COLUMN_TIME] = time;
	events->at[COLUMN_ADDR] = addr;
	events->at[COLUMN_SIZE] = size;
	events->at[COLUMN_STACK] = stack;
	events->piece_left = piece_left;
	decoder->tsc = tsc;
	decoder->addr = place;
	*ret_sound = is_sound;
	return count;
}

/* Decodes an event of COLUMN_OTHER, which holds events whole; `*ret_whole` as in event_step. False
 * if it is malformed. */
static bool take_other(struct columns_events *events, struct event_decoder *decoder,
	struct event *ret, bool *ret_whole)
{
	const uint8_t *at = events->at[COLUMN_OTHER];
	if (*events->at[COLUMN_SHAPE]++ || at >= events->end[COLUMN_OTHER])
		return false;
	const size_t length = event_step(decoder, at, ret, ret_whole);
	events->at[COLUMN_OTHER] += length;
	events->piece_left -= length;
	return length;
}

/* Whether no column was read past its end, and, if no event is left, each was read up to it. */
static bool is_within(const struct columns_events *events, bool ended)
{
	for (unsigned int i = 0; i < COLUMN_COUNT; i++)
		if (events->at[i] > events->end[i] || (ended && events->at[i] < events->end[i]))
			return false;
	return !ended || !events->piece_left;
}

_Static_assert(COLUMNS_ROOM >= COLUMNS_EVENTS_MAX * WORD_BYTES + EVENT_ROOM,
	"what is touched behind columns that end too early");

enum event_result columns_events_next(struct columns_events *events, struct event_decoder *decoder,
	struct event *ret, size_t max, size_t *ret_count)
{
	const size_t left_before = events->piece_left;
	size_t count = 0, steps = 0;
	bool is_sound = decoder->in_step;
	max = max < COLUMNS_EVENTS_MAX ? max : COLUMNS_EVENTS_MAX;
	while (is_sound && count < max && steps < COLUMNS_EVENTS_MAX &&
		events->at[COLUMN_SHAPE] < events->end[COLUMN_SHAPE]) {
		const size_t left = (size_t)(events->end[COLUMN_SHAPE] - events->at[COLUMN_SHAPE]);
		const size_t wanted = max - count < left ? max - count : left;
		bool is_whole = false;
		const size_t taken = decoder->has_thread ? take_shaped(events, decoder, ret + count,
								   wanted, &is_sound)
							 : 0;
		count += taken;
		steps += taken + 1;
		if (is_sound && taken < wanted) {
			is_sound = take_other(events, decoder, ret + count, &is_whole);
			count += is_whole;
		}
	}
	const bool ended = events->at[COLUMN_SHAPE] >= events->end[COLUMN_SHAPE];
	if (is_sound && is_within(events, ended)) {
		*ret_count = count;
		return ended ? EVENT_NONE_LEFT : EVENT_OK;
	}
	*ret_count = 0;
	events->piece_left = left_before;
	decoder->in_step = false;
	return EVENT_MALFORMED;
}

size_t columns_events_left(const struct columns_events *events)
{
	return events->piece_left;
}
