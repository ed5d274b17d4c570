/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of a piece of events sorted by field, and back (FORMAT.md, 3.8): what is alike stands
 * together, so that compressing it takes less time and leaves less. Nothing of an event's meaning
 * is looked at but how long its fields are; the same bytes come back. Hostile input, both ways.
 */
#pragma once

#include "format/bytes.h"
#include "format/event.h"

struct columns_encoder;

HT_MUST_CHECK
struct ht_err *columns_encoder_create(struct columns_encoder **ret);
/* Accepts NULL. */
void columns_encoder_destroy(struct columns_encoder *encoder);

/* Appends the columns of `piece` to `out`. `*ret_done` is false, and nothing was appended, when the
 * piece is not whole events from its first byte to its last one, or longer than a record. */
HT_MUST_CHECK
struct ht_err *columns_encode(
	struct columns_encoder *encoder, struct bytes piece, struct bytes_out *out, bool *ret_done);

/* Appends the piece to `out`: at most TRACE_RECORD_MAX bytes. HT_ERR_FORMAT when the columns are
 * not what an encoder makes; `out` is then as it was. `scratch` is memory for the next call. */
HT_MUST_CHECK
struct ht_err *columns_decode(
	struct bytes columns, struct bytes_out *scratch, struct bytes_out *out);

/* The length of the piece; HT_ERR_FORMAT when the columns' head is not sound. */
HT_MUST_CHECK
struct ht_err *columns_length(struct bytes columns, size_t *ret);

/*
 * The events of a piece, without its bytes: what columns_decode and event_next give, except that
 * of damaged columns up to COLUMNS_EVENTS_MAX events before the damage are lost.
 */
struct columns_events;

#define COLUMNS_EVENTS_MAX 64u
#define COLUMNS_ROOM	   (COLUMNS_EVENTS_MAX * 8 + ABI_EVENT_MAX_BYTES)

/* Begins to read columns, borrowed until the end, behind which COLUMNS_ROOM bytes are readable.
 * HT_ERR_FORMAT when their head is not sound. */
HT_MUST_CHECK
struct ht_err *columns_events_create(struct bytes columns, struct columns_events **ret);
/* Accepts NULL. */
void columns_events_destroy(struct columns_events *events);
/* Decodes the next events, `*ret_count` of them: at most `max`, and at most COLUMNS_EVENTS_MAX.
 * NONE_LEFT: these were the last. MALFORMED: there are none, and in_step is false. */
HT_MUST_CHECK
enum event_result columns_events_next(struct columns_events *events, struct event_decoder *decoder,
	struct event *ret, size_t max, size_t *ret_count);
/* How many bytes of the piece are not decoded; of damaged columns, those that are lost. */
size_t columns_events_left(const struct columns_events *events);
