/* SPDX-License-Identifier: Apache-2.0 */
#include "format/columns.h"

#include <stdlib.h>
#include <string.h>

#include "format/columns_layout.h"
#include "format/record.h"

#define TAG_VALUES 65536u

/* A longer piece is split into two parts that are sorted alternately (sort_both). */
#define SPLIT_BYTES  4096u
#define GUESS_EVENTS 32u

/* Columns at the same offset of a page would evict each other from the cache. */
#define STAGGER_BYTES 704u

/* The lengths of the fields of events with one pair of tags. In each array, index 1 is for a time
 * whose first byte is 0. */
struct shape {
	struct widths widths;
	uint8_t number[2]; /* 0: the shape has no number yet */
	uint8_t time[2];   /* bytes that the time takes in its column */
};

struct columns_encoder {
	struct bytes_out scratch;	 /* the columns under construction */
	unsigned int shape_count;	 /* of this piece */
	uint8_t tags[SHAPES_MAX + 1][2]; /* of each shape, from 1 */
	struct shape shape[TAG_VALUES];	 /* by both tags, few of which ever appear */
};

/* The end of each column so far. */
struct lane {
	uint8_t *end[COLUMN_COUNT];
};

/* A part of a piece, sorted into columns of its own up to `at`. */
struct part {
	const uint8_t *at, *end;
	struct lane empty, lane; /* at the start, and now */
};

struct ht_err *columns_encoder_create(struct columns_encoder **ret)
{
	*ret = calloc(1, sizeof(**ret));
	return *ret ? NULL : ht_err_new(HT_ERR_NOMEM, "no memory to sort events");
}

void columns_encoder_destroy(struct columns_encoder *encoder)
{
	if (!encoder)
		return;
	bytes_out_deinit(&encoder->scratch);
	free(encoder);
}

static struct shape *shape_at(struct columns_encoder *encoder, const uint8_t *at)
{
	uint16_t tags;
	memcpy(&tags, at, sizeof(tags));
	return &encoder->shape[tags];
}

static void forget_shapes(struct columns_encoder *encoder)
{
	for (unsigned int i = 1; i <= encoder->shape_count; i++) {
		const uint8_t tags[TAG_BYTES] = {
			encoder->tags[i][0] & (uint8_t)~TIME_LEFT_OUT, encoder->tags[i][1]};
		*shape_at(encoder, tags) = (struct shape){0};
	}
	encoder->shape_count = 0;
}

/* Gives the tags of the event at `at` a new shape number; false if they cannot have one. */
static bool add_shape(struct columns_encoder *encoder, const uint8_t *at)
{
	struct widths widths = widths_of(at[0], at[1]);
	if (!widths.event || at[0] & TIME_LEFT_OUT || encoder->shape_count == SHAPES_MAX)
		return false;
	uint8_t number = (uint8_t)++encoder->shape_count;
	bool is_byte = widths.time == 1, is_left_out = is_byte && !at[TAG_BYTES];
	encoder->tags[number][0] = at[0] | (is_left_out ? TIME_LEFT_OUT : 0);
	encoder->tags[number][1] = at[1];

	struct shape *shape = shape_at(encoder, at);
	shape->widths = widths;
	shape->time[0] = widths.time;
	shape->time[1] = is_byte ? 0 : widths.time;
	shape->number[is_left_out] = number;
	if (!is_byte)
		shape->number[1] = number;
	return true;
}

/* Copies an event without a shape. False if no event is at `*at`. */
static bool put_other(const uint8_t **at, struct lane *lane)
{
	size_t length = event_bytes(*at);
	if (!length)
		return false;
	*lane->end[COLUMN_SHAPE]++ = 0;
	memcpy(lane->end[COLUMN_OTHER], *at, EVENT_ROOM);
	lane->end[COLUMN_OTHER] += length;
	*at += length;
	return true;
}

static inline void put_field(
	struct lane *lane, enum column column, const uint8_t *from, size_t width)
{
	memcpy(lane->end[column], from, column == COLUMN_STACK ? sizeof(uint32_t) : WORD_BYTES);
	lane->end[column] += width;
}

/* Sorts the event at `*at`, where EVENT_ROOM bytes must be readable, and moves `*at` to the next.
 * False if no event is there; nothing has moved. */
static inline __attribute__((always_inline)) bool put_event(
	struct columns_encoder *encoder, const uint8_t **at, struct lane *lane)
{
	const uint8_t *field = *at;
	const struct shape *shape = shape_at(encoder, field);
	unsigned int is_zero = !field[TAG_BYTES];
	if (ht_unlikely(!shape->number[is_zero]) && !add_shape(encoder, field))
		return put_other(at, lane);
	*lane->end[COLUMN_SHAPE]++ = shape->number[is_zero];
	field += TAG_BYTES;
	put_field(lane, COLUMN_TIME, field, shape->time[is_zero]);
	field += shape->widths.time;
	put_field(lane, COLUMN_ADDR, field, shape->widths.addr);
	field += shape->widths.addr;
	put_field(lane, COLUMN_SIZE, field, shape->widths.size);
	field += shape->widths.size;
	put_field(lane, COLUMN_STACK, field, shape->widths.stack);
	*at += shape->widths.event;
	return true;
}

/* As put_event near the end of the piece, where fewer than EVENT_ROOM bytes are readable: works on
 * a padded copy. */
static bool put_late_event(
	struct columns_encoder *encoder, const uint8_t **at, size_t left, struct lane *lane)
{
	uint8_t padded[EVENT_ROOM] = {0};
	const uint8_t *next = padded;
	memcpy(padded, *at, left);
	if (!put_event(encoder, &next, lane) || (size_t)(next - padded) > left)
		return false;
	*at += next - padded;
	return true;
}

/* False if the bytes up to `stop` are not whole events. */
static bool sort_up_to(struct columns_encoder *encoder, struct part *part, const uint8_t *stop)
{
	struct lane lane = part->lane;
	const uint8_t *at = part->at;
	bool is_event = true;
	while (is_event && at < stop && part->end - at >= EVENT_ROOM)
		is_event = put_event(encoder, &at, &lane);
	while (is_event && at < stop)
		is_event = put_late_event(encoder, &at, (size_t)(part->end - at), &lane);
	part->lane = lane;
	part->at = at;
	return is_event;
}

/* A lower bound of the number of events in [at, end). */
static size_t least_events(const uint8_t *at, const uint8_t *end)
{
	return at < end ? (size_t)(end - at) / EVENT_ROOM : 0;
}

/*
 * The start of each event depends on two loads from the event before it, and the processor would
 * wait for them: so two parts are sorted alternately until one is finished. The start of `second`
 * is a guess, so its failure does not matter. False if `first` fails.
 */
static bool sort_both(struct columns_encoder *encoder, struct part *first, const uint8_t *stop,
	struct part *second)
{
	struct lane lane = first->lane, lane2 = second->lane;
	const uint8_t *at = first->at, *at2 = second->at;
	bool is_event = true, is_event2 = true;
	while (is_event && is_event2) {
		size_t count = least_events(at, stop), count2 = least_events(at2, second->end);
		count = count < count2 ? count : count2;
		if (!count)
			break;
		do {
			is_event = put_event(encoder, &at, &lane);
			is_event2 = put_event(encoder, &at2, &lane2);
		} while (is_event && is_event2 && --count);
	}
	first->lane = lane;
	first->at = at;
	second->lane = lane2;
	second->at = at2;
	return is_event;
}

/* A place near the middle where an event may begin: decoding from a wrong byte usually falls into
 * step within 32 events. */
static const uint8_t *guess_start(const struct part *part)
{
	const uint8_t *at = part->at + (part->end - part->at) / 2;
	for (unsigned int i = 0; i < GUESS_EVENTS; i++) {
		size_t length = event_bytes(at);
		at += length ? length : 1;
	}
	return at;
}

_Static_assert(SPLIT_BYTES / 2 >= (GUESS_EVENTS + 1) * EVENT_ROOM, "a guess stays in the piece");

/* False if the piece is not whole events. */
static bool sort(struct columns_encoder *encoder, struct part *first, struct part *second)
{
	if (first->end - first->at >= SPLIT_BYTES) {
		const uint8_t *start = guess_start(first);
		second->at = start;
		if (!sort_both(encoder, first, start, second) || !sort_up_to(encoder, first, start))
			return false;
		if (first->at == start)
			return sort_up_to(encoder, second, second->end);
		second->lane = second->empty;
	}
	return sort_up_to(encoder, first, first->end);
}

static struct part part_of(struct bytes piece, uint8_t *memory, size_t column_bytes)
{
	struct part part = {.at = piece.at, .end = piece.end};
	for (unsigned int i = 0; i < COLUMN_COUNT; i++)
		part.empty.end[i] = memory + i * column_bytes;
	part.lane = part.empty;
	return part;
}

static size_t part_bytes(const struct part *part, unsigned int column)
{
	return (size_t)(part->lane.end[column] - part->empty.end[column]);
}

static struct ht_err *put_columns(const struct columns_encoder *encoder, size_t length,
	const struct part *first, const struct part *second, struct bytes_out *out)
{
	HT_TRY(bytes_out_uleb(out, length));
	HT_TRY(bytes_out_uleb(out, encoder->shape_count));
	for (unsigned int i = 0; i < COLUMN_COUNT; i++)
		HT_TRY(bytes_out_uleb(out, part_bytes(first, i) + part_bytes(second, i)));
	HT_TRY(bytes_out_put(out, encoder->tags[1], encoder->shape_count * TAG_BYTES));
	for (unsigned int i = 0; i < COLUMN_COUNT; i++) {
		HT_TRY(bytes_out_put(out, first->empty.end[i], part_bytes(first, i)));
		HT_TRY(bytes_out_put(out, second->empty.end[i], part_bytes(second, i)));
	}
	return NULL;
}

struct ht_err *columns_encode(
	struct columns_encoder *encoder, struct bytes piece, struct bytes_out *out, bool *ret_done)
{
	const size_t start = out->length, length = bytes_left(&piece);
	*ret_done = false;
	if (length > TRACE_RECORD_MAX)
		return NULL;
	/* No column is longer than its piece. */
	const size_t column_bytes = length + EVENT_ROOM + STAGGER_BYTES;
	HT_TRY(bytes_out_reserve(&encoder->scratch, 2 * COLUMN_COUNT * column_bytes));
	uint8_t *memory = encoder->scratch.data;
	struct part first = part_of(piece, memory, column_bytes);
	struct part second = part_of(piece, memory + COLUMN_COUNT * column_bytes, column_bytes);
	forget_shapes(encoder);
	if (!sort(encoder, &first, &second))
		return NULL;
	struct ht_err *err = put_columns(encoder, length, &first, &second, out);
	if (err)
		out->length = start;
	*ret_done = !err;
	return err;
}
