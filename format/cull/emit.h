/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes events as REC_EVENTS: gathers up to EMIT_EVENTS, then makes one piece for each stream. A
 * piece begins with a restart, so that a stream needs no state but its position.
 */
#pragma once

#include "format/event_reencode.h"
#include "format/record.h"

/* Gathered at most; the bytes of so many events always fit one record. */
#define EMIT_EVENTS 4096u

struct emit_event {
	struct event event;
	uint32_t stream;
	uint32_t next; /* of the same stream; index + 1, 0: none */
};

struct emit_stream {
	uint64_t position;
	uint32_t first, last; /* gathered events; index + 1, 0: none */
};

/* Receives a record and the number of counted events that the record represents. */
typedef struct ht_err *emit_put(void *context, const struct rec *rec, uint64_t events);

/* Zero-initialised is empty, and valid once `put` is set. */
struct emit {
	emit_put *put;
	void *context;
	struct event_reencoder encoder;
	struct emit_event *event; /* EMIT_EVENTS of them */
	size_t count;
	struct emit_stream *stream;
	size_t stream_capacity;
	/* events written or gathered so far, without mappings (event_is_counted) */
	uint64_t counted;
};

void emit_deinit(struct emit *emit);
HT_MUST_CHECK
struct ht_err *emit_add(struct emit *emit, uint32_t stream, const struct event *event);
/* Puts the gathered events. */
HT_MUST_CHECK
struct ht_err *emit_flush(struct emit *emit);
