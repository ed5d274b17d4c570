/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a trace: header, blocks (LZ4 frames with content size and checksum), footer. Records are
 * gathered in memory and leave as one whole block, so that a file cut at any byte is readable up to
 * its last whole block. Not thread-safe. See FORMAT.md.
 */
#pragma once

#include "format/record.h"

#define TRACE_BLOCK_BYTES (256u << 10) /* a block is closed when its records reach this size */

struct trace_writer;

/* Starts a trace on `fd` (a file or a pipe; borrowed, written from its present position) and writes
 * the header. The caller must ignore SIGPIPE and SIGXFSZ. */
HT_MUST_CHECK
struct ht_err *trace_writer_create(int fd, struct trace_writer **ret);
/* Drops buffered records; does not close the descriptor. Accepts NULL. */
void trace_writer_destroy(struct trace_writer *writer);

/*
 * Appends one record; writes the block out first if it is full. After an error the record is not
 * part of the trace, earlier records are kept, and the call may be repeated. A block written only
 * in part (ENOSPC and the like) is cut off a regular file, which then ends with the last whole
 * block; on a pipe the next call writes the rest.
 */
HT_MUST_CHECK
struct ht_err *trace_writer_put(struct trace_writer *writer, const struct rec *rec);
/* Writes the block under construction out, if it holds anything. */
HT_MUST_CHECK
struct ht_err *trace_writer_flush(struct trace_writer *writer);
/* Flushes and writes the footer; no put may follow. The call may be repeated after an error. */
HT_MUST_CHECK
struct ht_err *trace_writer_finish(struct trace_writer *writer);
/* Bytes written to the descriptor so far. */
uint64_t trace_writer_bytes(const struct trace_writer *writer);
