/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a trace: header, blocks (LZ4 frames with content size and checksum), footer. Records are
 * gathered in memory and leave as one whole block, so that a file cut at any byte is readable up to
 * its last whole block. Not thread-safe. See FORMAT.md.
 */
#pragma once

#include "format/record.h"

#define TRACE_BLOCK_BYTES (256u << 10) /* a block is closed when its records reach this size */
#define TRACE_BLOCK_MAX	  (2u << 20)   /* no block is larger, decompressed */

struct trace_writer;

/* Starts a trace on `fd` (a file or a pipe; borrowed, never seeked) and writes the header. */
HT_MUST_CHECK
struct ht_err *trace_writer_create(int fd, struct trace_writer **ret);
/* Forgets buffered records; does not close the descriptor. Accepts NULL. */
void trace_writer_destroy(struct trace_writer *writer);

/*
 * Appends one record; writes a block out when it is full. After an error (ENOSPC and the like) the
 * file ends with the last whole block, the block under construction is kept, and the call may be
 * tried again; a partly written block is cut off where the descriptor allows ftruncate.
 */
HT_MUST_CHECK
struct ht_err *trace_writer_put(struct trace_writer *writer, const struct rec *rec);
/* Writes the block under construction out, if it holds anything. */
HT_MUST_CHECK
struct ht_err *trace_writer_flush(struct trace_writer *writer);
/* Flushes and writes the footer: no put afterwards. */
HT_MUST_CHECK
struct ht_err *trace_writer_finish(struct trace_writer *writer);
/* Bytes written to the descriptor so far. */
uint64_t trace_writer_bytes(const struct trace_writer *writer);
