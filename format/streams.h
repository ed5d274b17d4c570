/* SPDX-License-Identifier: Apache-2.0
 *
 * Puts the event streams of all slots into one order by time stamp. Pieces wait here, encoded,
 * until a SYNC says that no older events follow. After a gap or damage, decoding of a stream
 * resumes at its next restart; the bytes before that restart are counted as lost.
 */
#pragma once

#include "format/event.h"
#include "format/record.h"

#define STREAMS_MAX 65536u
/* If more bytes wait, all waiting events are released early. */
#define STREAMS_WAITING_BYTES (256u << 20)

struct streams_damage {
	uint64_t gaps;		/* jumps in a stream's position */
	uint64_t missing_bytes; /* bytes in these gaps */
	uint64_t skipped_bytes; /* bytes that are present but malformed or without a start to decode
				   from */
	uint64_t malformed;	/* pieces that could not be decoded to their end */
	uint64_t early;		/* releases forced by STREAMS_WAITING_BYTES */
};

struct streams;

/* Receives the next events, at least one. All belong to the stream with index `stream`; streams are
 * numbered from 0 in the order of their first piece, below STREAMS_MAX. */
typedef struct ht_err *streams_sink(
	void *context, uint32_t stream, const struct event *event, size_t count);

/* Sees events some time before the sink does, to prefetch memory. */
typedef void streams_scout(void *context, const struct event *event, size_t count);

HT_MUST_CHECK
struct ht_err *streams_create(
	streams_sink *sink, streams_scout *scout, void *context, struct streams **ret);
void streams_destroy(struct streams *streams);
/* Takes a copy of one piece: a REC_EVENTS, or a REC_COLUMNS with piece_bytes
 * (trace_reader_keep_columns). Passes all waiting events to the sink if they exceed
 * STREAMS_WAITING_BYTES. HT_ERR_FORMAT: more than STREAMS_MAX streams. */
HT_MUST_CHECK
struct ht_err *streams_add(struct streams *streams, const struct rec *rec);
/* Passes every waiting event stamped before `tsc` to the sink, in the order of their stamps. */
HT_MUST_CHECK
struct ht_err *streams_release(struct streams *streams, uint64_t tsc);
/* Passes all waiting events to the sink: at the end of the trace. */
HT_MUST_CHECK
struct ht_err *streams_finish(struct streams *streams);
const struct streams_damage *streams_damage(const struct streams *streams);
