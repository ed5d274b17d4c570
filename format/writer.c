/* SPDX-License-Identifier: Apache-2.0 */
#include "format/writer.h"

#include <errno.h>
#include <lz4frame.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format/columns.h"
#include "format/container.h"

_Static_assert(TRACE_BLOCK_BYTES + TRACE_RECORD_MAX + 64 < TRACE_BLOCK_MAX,
	"a block one byte short of full takes one more record of any size");

/*
 * Bytes move put -> block -> (compressed) frame -> descriptor. A frame stays until all of it is
 * written, so a retried write does not change later frames.
 */
struct trace_writer {
	int fd;
	bool is_finished;	/* the footer is in `frame`, or was written */
	struct bytes_out block; /* records of the block under construction */
	uint64_t block_records;
	struct bytes_out frame; /* compressed block, or footer, that is being written to `fd` */
	size_t frame_sent;
	uint64_t whole_bytes; /* written, up to the end of the last whole frame */
	struct bytes_out index;
	uint64_t blocks, records;
	uint64_t indexed_offset;
	/* The last REC_SYNC, and that of the last entry in `index`; 0 before the first. */
	struct rec_sync sync, indexed_sync;
	struct columns_encoder *encoder;
	struct bytes_out columns; /* columns of the last piece */
	struct rec sorted;	  /* the REC_COLUMNS record of `columns` */
};

/* Truncates the file to drop the part of `frame` already written. If that is not possible, the rest
 * of the frame must follow. */
static void cut_partial_frame(struct trace_writer *writer)
{
	if (!writer->frame_sent)
		return;
	/* Read the position each time: a file opened with O_APPEND may begin with bytes of others,
	 * and only the first write moves the position behind them. */
	off_t position = lseek(writer->fd, 0, SEEK_CUR);
	if (position < (off_t)writer->frame_sent)
		return;
	off_t whole = position - (off_t)writer->frame_sent;
	if (!ftruncate(writer->fd, whole) && lseek(writer->fd, whole, SEEK_SET) == whole)
		writer->frame_sent = 0;
}

static struct ht_err *send_frame(struct trace_writer *writer)
{
	while (writer->frame_sent < writer->frame.length) {
		ssize_t n = write(writer->fd, writer->frame.data + writer->frame_sent,
			writer->frame.length - writer->frame_sent);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			struct ht_err *err = ht_err_sys(n ? errno : EIO, "cannot write the trace");
			cut_partial_frame(writer);
			return err;
		}
		writer->frame_sent += (size_t)n;
	}
	writer->whole_bytes += writer->frame.length;
	writer->frame.length = 0;
	writer->frame_sent = 0;
	return NULL;
}

static struct ht_err *put_u32(struct bytes_out *out, uint32_t value)
{
	return bytes_out_put(out, &value, sizeof(value));
}

static struct ht_err *put_skippable_head(struct bytes_out *out, size_t payload_length)
{
	if (payload_length > UINT32_MAX)
		return ht_err_new(HT_ERR_INTERNAL, "trace index of %zu bytes", payload_length);
	HT_TRY(put_u32(out, TRACE_SKIPPABLE_MAGIC));
	return put_u32(out, (uint32_t)payload_length);
}

static struct ht_err *make_header(struct bytes_out *frame)
{
	struct {
		uint8_t tag[TRACE_TAG_BYTES];
		uint16_t major, minor;
	} payload = {.major = TRACE_MAJOR, .minor = TRACE_MINOR};
	memcpy(payload.tag, TRACE_HEADER_TAG, sizeof(payload.tag));
	HT_TRY(put_skippable_head(frame, TRACE_HEADER_MIN));
	HT_TRY(bytes_out_put(frame, &payload, sizeof(payload)));
	return put_u32(frame, trace_crc32(0, &payload, sizeof(payload)));
}

static struct ht_err *make_footer(struct trace_writer *writer)
{
	struct bytes_out *frame = &writer->frame;
	struct trace_trailer trailer = {
		.blocks = writer->blocks,
		.records = writer->records,
		.footer_offset = writer->whole_bytes,
	};
	memcpy(trailer.tag, TRACE_TRAILER_TAG, sizeof(trailer.tag));
	HT_TRY(put_skippable_head(frame, TRACE_FOOTER_MIN + writer->index.length));
	HT_TRY(bytes_out_put(frame, TRACE_FOOTER_TAG, TRACE_TAG_BYTES));
	HT_TRY(bytes_out_put(frame, writer->index.data, writer->index.length));
	HT_TRY(bytes_out_put(frame, &trailer, offsetof(struct trace_trailer, crc)));
	trailer.crc = trace_crc32(
		0, frame->data + TRACE_SKIPPABLE_BYTES, frame->length - TRACE_SKIPPABLE_BYTES);
	return bytes_out_put(
		frame, &trailer.crc, sizeof(trailer) - offsetof(struct trace_trailer, crc));
}

/* Differences are modulo 2^64: a clock that steps back only costs bytes. */
static struct ht_err *put_index_entry(struct trace_writer *writer)
{
	const struct rec_sync *from = &writer->indexed_sync, *to = &writer->sync;
	const uint64_t entry[] = {
		writer->whole_bytes - writer->indexed_offset,
		writer->block_records,
		to->mono_ns - from->mono_ns,
		to->tsc - from->tsc,
		to->complete_tsc - from->complete_tsc,
	};
	const size_t start = writer->index.length;
	for (size_t i = 0; i < HT_ARRAY_SIZE(entry); i++) {
		struct ht_err *err = bytes_out_uleb(&writer->index, entry[i]);
		if (err) {
			writer->index.length = start;
			return err;
		}
	}
	writer->indexed_offset = writer->whole_bytes;
	writer->indexed_sync = writer->sync;
	return NULL;
}

/* Compresses the block under construction into the empty `frame`. The block checksum covers the
 * compressed bytes: the content checksum misses flips of bits that have no effect on the content.
 */
static struct ht_err *make_block(struct trace_writer *writer)
{
	const LZ4F_preferences_t preferences = {
		.frameInfo.blockSizeID = LZ4F_max4MB,
		.frameInfo.blockMode = LZ4F_blockIndependent,
		.frameInfo.contentChecksumFlag = LZ4F_contentChecksumEnabled,
		.frameInfo.blockChecksumFlag = LZ4F_blockChecksumEnabled,
		.frameInfo.contentSize = writer->block.length,
	};
	struct bytes_out *frame = &writer->frame;
	size_t bound = LZ4F_compressFrameBound(writer->block.length, &preferences);
	HT_TRY(bytes_out_reserve(frame, bound));
	size_t length = LZ4F_compressFrame(frame->data, frame->capacity, writer->block.data,
		writer->block.length, &preferences);
	if (LZ4F_isError(length))
		return ht_err_new(HT_ERR_INTERNAL, "cannot compress a block of the trace: %s",
			LZ4F_getErrorName(length));
	HT_TRY(put_index_entry(writer));
	frame->length = length;
	writer->blocks++;
	writer->records += writer->block_records;
	writer->block.length = 0;
	writer->block_records = 0;
	return NULL;
}

struct ht_err *trace_writer_create(int fd, struct trace_writer **ret)
{
	struct trace_writer *writer = calloc(1, sizeof(*writer));
	if (!writer)
		return ht_err_new(HT_ERR_NOMEM, "no memory for a trace writer");
	writer->fd = fd;
	struct ht_err *err = bytes_out_reserve(&writer->block, TRACE_BLOCK_BYTES);
	HT_THEN(err, columns_encoder_create(&writer->encoder));
	HT_THEN(err, make_header(&writer->frame));
	HT_THEN(err, send_frame(writer));
	if (err) {
		trace_writer_destroy(writer);
		return err;
	}
	*ret = writer;
	return NULL;
}

void trace_writer_destroy(struct trace_writer *writer)
{
	if (!writer)
		return;
	bytes_out_deinit(&writer->block);
	bytes_out_deinit(&writer->frame);
	bytes_out_deinit(&writer->index);
	bytes_out_deinit(&writer->columns);
	columns_encoder_destroy(writer->encoder);
	free(writer);
}

/* `*ret` is NULL if the piece cannot be sorted or would not become shorter. */
static struct ht_err *sort_events(
	struct trace_writer *writer, const struct rec_events *events, const struct rec **ret)
{
	bool is_sorted;
	writer->columns.length = 0;
	struct ht_err *err =
		columns_encode(writer->encoder, events->body, &writer->columns, &is_sorted);
	*ret = NULL;
	if (err || !is_sorted || writer->columns.length >= bytes_left(&events->body))
		return err;
	writer->sorted.kind = REC_COLUMNS;
	writer->sorted.events = *events;
	writer->sorted.events.body = bytes_of(writer->columns.data, writer->columns.length);
	*ret = &writer->sorted;
	return NULL;
}

struct ht_err *trace_writer_put(struct trace_writer *writer, const struct rec *rec)
{
	if (writer->is_finished)
		return ht_err_new(HT_ERR_INTERNAL, "a record came after the end of the trace");
	if (writer->block.length >= TRACE_BLOCK_BYTES)
		HT_TRY(trace_writer_flush(writer));
	const struct rec *sorted = NULL;
	if (rec->kind == REC_EVENTS)
		HT_TRY(sort_events(writer, &rec->events, &sorted));
	HT_TRY(rec_encode(&writer->block, sorted ? sorted : rec));
	writer->block_records++;
	if (rec->kind == REC_SYNC)
		writer->sync = rec->sync;
	return NULL;
}

struct ht_err *trace_writer_flush(struct trace_writer *writer)
{
	struct ht_err *err = send_frame(writer);
	if (err || !writer->block.length)
		return err;
	HT_TRY(make_block(writer));
	return send_frame(writer);
}

struct ht_err *trace_writer_finish(struct trace_writer *writer)
{
	struct ht_err *err = trace_writer_flush(writer);
	if (err || writer->is_finished)
		return err;
	err = make_footer(writer);
	if (err) {
		writer->frame.length = 0;
		return err;
	}
	writer->is_finished = true;
	return send_frame(writer);
}

uint64_t trace_writer_bytes(const struct trace_writer *writer)
{
	return writer->whole_bytes + writer->frame_sent;
}
