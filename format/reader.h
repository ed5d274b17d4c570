/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a trace record by record from a file or a pipe, in memory bounded by one block. Works
 * without a footer. From a damaged, cut or growing file it returns every record up to the last
 * whole block, then reports how the file ends.
 */
#pragma once

#include "format/record.h"

enum trace_end {
	TRACE_MORE,	 /* a record was read */
	TRACE_COMPLETE,	 /* footer reached, and nothing follows it */
	TRACE_TRUNCATED, /* the file ends without footer, or inside a block */
	TRACE_DAMAGED,	 /* a block fails its checksum or is malformed: reading stops there; or
			    something follows the footer */
};

struct trace_reader;

/* `fd` is borrowed and read sequentially; `name` is for messages, copied. HT_ERR_FORMAT when the
 * header is not that of a trace (or of a newer major version: the message says so; newer minor
 * versions are read). */
HT_MUST_CHECK
struct ht_err *trace_reader_create(int fd, const char *name, struct trace_reader **ret);
void trace_reader_destroy(struct trace_reader *reader);
/* Ends the trace after `bytes` bytes of the file. Call it before the first record. */
void trace_reader_limit(struct trace_reader *reader, uint64_t bytes);
/* Returns REC_COLUMNS unchanged, with a checked head and piece_bytes set, instead of restoring
 * their REC_EVENTS. Call it before the first record. */
void trace_reader_keep_columns(struct trace_reader *reader);

/*
 * Reads the next record. `ret_end` says what happened; `ret` is set only for TRACE_MORE, its views
 * live until the next call. Damage is a value, explained by trace_reader_problem(); I/O errors are
 * errors, after which the reader can only be destroyed.
 */
HT_MUST_CHECK
struct ht_err *trace_reader_next(
	struct trace_reader *reader, struct rec *ret, enum trace_end *ret_end);

/* After TRACE_TRUNCATED of a growing trace in a seekable file: lets trace_reader_next read the
 * records written since. */
HT_MUST_CHECK
struct ht_err *trace_reader_continue(struct trace_reader *reader);

/* Why the trace ended early, as a message; NULL if it did not end early. Owned by the reader. */
const char *trace_reader_problem(const struct trace_reader *reader);
/* Whether the file was still being written when the reader was created or last continued. If so,
 * TRACE_TRUNCATED does not mean that the file was cut. */
bool trace_reader_is_growing(const struct trace_reader *reader);
/* File bytes consumed so far, for progress. */
uint64_t trace_reader_offset(const struct trace_reader *reader);
/* File bytes read so far: a second reader with this limit reads the same records even if the file
 * grows. */
uint64_t trace_reader_seen(const struct trace_reader *reader);
/* Records returned so far. */
uint64_t trace_reader_records(const struct trace_reader *reader);
