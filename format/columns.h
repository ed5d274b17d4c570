/* SPDX-License-Identifier: Apache-2.0
 *
 * Sorts the bytes of a piece of events by field, and restores them exactly (FORMAT.md, 3.8).
 * Similar bytes stand together, so they compress faster and better. Only the lengths of fields are
 * interpreted. Input is hostile in both directions.
 */
#pragma once

#include "format/bytes.h"
#include "format/event.h"

struct columns_encoder;

HT_MUST_CHECK
struct ht_err *columns_encoder_create(struct columns_encoder **ret);
/* Accepts NULL. */
void columns_encoder_destroy(struct columns_encoder *encoder);

/* Appends the columns of `piece` to `out`. `*ret_done` is false, and nothing is appended, if the
 * piece does not consist of whole events or is longer than a record. */
HT_MUST_CHECK
struct ht_err *columns_encode(
	struct columns_encoder *encoder, struct bytes piece, struct bytes_out *out, bool *ret_done);

/* Restores the piece from `columns` and appends it to `out`: at most TRACE_RECORD_MAX bytes.
 * HT_ERR_FORMAT if no encoder can have made these columns; `out` is then unchanged. `scratch` keeps
 * its memory for the next call. */
HT_MUST_CHECK
struct ht_err *columns_decode(
	struct bytes columns, struct bytes_out *scratch, struct bytes_out *out);

/* The length of the piece in bytes; HT_ERR_FORMAT if the head of the columns is damaged. */
HT_MUST_CHECK
struct ht_err *columns_length(struct bytes columns, size_t *ret);

/*
 * Decodes the events of a piece without restoring its bytes. The result is that of columns_decode
 * and event_next, except that damage also loses up to COLUMNS_EVENTS_MAX events before it.
 */
struct columns_events;

#define COLUMNS_EVENTS_MAX 64u
#define COLUMNS_ROOM	   (COLUMNS_EVENTS_MAX * 8 + ABI_EVENT_MAX_BYTES)

/* Begins to read `columns`, borrowed until columns_events_destroy; COLUMNS_ROOM bytes behind them
 * must be readable. HT_ERR_FORMAT if their head is damaged. */
HT_MUST_CHECK
struct ht_err *columns_events_create(struct bytes columns, struct columns_events **ret);
/* Accepts NULL. */
void columns_events_destroy(struct columns_events *events);
/* Decodes the next events, `*ret_count` of them: at most `max`, and at most COLUMNS_EVENTS_MAX.
 * NONE_LEFT: no events follow these. MALFORMED: no event was decoded, and in_step is false. */
HT_MUST_CHECK
enum event_result columns_events_next(struct columns_events *events, struct event_decoder *decoder,
	struct event *ret, size_t max, size_t *ret_count);
/* Bytes of the piece not decoded yet; after damage, the bytes lost. */
size_t columns_events_left(const struct columns_events *events);
