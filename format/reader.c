/* SPDX-License-Identifier: Apache-2.0 */
#include "format/reader.h"

#include <errno.h>
#include <lz4frame.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format/columns.h"
#include "format/container.h"
#include "format/growing.h"

#define INPUT_BYTES (64u << 10)

_Static_assert(INPUT_BYTES >= TRACE_SKIPPABLE_BYTES + TRACE_HEADER_MAX &&
		       INPUT_BYTES >= LZ4F_HEADER_SIZE_MAX,
	"what is looked at in one piece fits the input buffer");

typedef unsigned long long ull;

struct trace_reader {
	int fd;
	char *name;
	size_t input_at, input_end;
	bool input_ended;
	uint64_t limit;	 /* bytes that may still be read */
	uint64_t offset; /* of input[input_at] in the trace */
	bool is_growing; /* the file was being written when the reader was created or continued */
	bool keeps_columns;

	LZ4F_dctx *lz4;
	struct bytes_out block; /* decompressed, checksum verified */
	struct bytes records;	/* the unread records of `block` */
	uint64_t block_offset;	/* of the block's frame in the trace */
	uint64_t frame_offset;	/* of the frame being read, of any kind */
	uint64_t blocks, record_count;
	struct bytes_out scratch, piece; /* memory to restore events from columns */

	enum trace_end end;	/* TRACE_MORE until the reader reaches another end */
	struct ht_err *problem; /* why `end` is TRUNCATED or DAMAGED */
	uint8_t input[INPUT_BYTES];
};

/* Ends the trace for the stated reason; gives an error of code HT_ERR_FORMAT. */
#define trace_stops(reader, how, fmt, ...)                                                         \
	((reader)->end = (how),                                                                    \
		ht_err_new(HT_ERR_FORMAT, "%s: " fmt, (reader)->name, ##__VA_ARGS__))
#define trace_damaged(reader, fmt, ...) trace_stops(reader, TRACE_DAMAGED, fmt, ##__VA_ARGS__)
#define block_damaged(reader, fmt, ...)                                                            \
	trace_damaged(reader, "block %llu at byte %llu: " fmt, (ull)(reader)->blocks,              \
		(ull)(reader)->block_offset, ##__VA_ARGS__)

/* --- input --- */

static size_t input_left(const struct trace_reader *reader)
{
	return reader->input_end - reader->input_at;
}

static const uint8_t *input(const struct trace_reader *reader)
{
	return reader->input + reader->input_at;
}

static void input_consume(struct trace_reader *reader, size_t length)
{
	reader->input_at += length;
	reader->offset += length;
}

/* Reads until `length` bytes, at most INPUT_BYTES, are buffered or the input ends. */
static struct ht_err *input_fill(struct trace_reader *reader, size_t length)
{
	if (input_left(reader) >= length)
		return NULL;
	memmove(reader->input, input(reader), input_left(reader));
	reader->input_end -= reader->input_at;
	reader->input_at = 0;
	while (reader->input_end < length && !reader->input_ended) {
		size_t room = sizeof(reader->input) - reader->input_end;
		ssize_t n = read(reader->fd, reader->input + reader->input_end,
			room < reader->limit ? room : reader->limit);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return ht_err_sys(errno, "cannot read %s", reader->name);
		reader->input_ended = !n;
		reader->input_end += (size_t)n;
		reader->limit -= (size_t)n;
	}
	return NULL;
}

/* As input_fill(); if the input ends earlier, the error says that `what` is cut. */
static struct ht_err *input_need(struct trace_reader *reader, size_t length, const char *what)
{
	struct ht_err *err = input_fill(reader, length);
	if (err || input_left(reader) >= length)
		return err;
	return trace_stops(reader, TRACE_TRUNCATED, "cut within its %s, at byte %llu", what,
		(ull)(reader->offset + input_left(reader)));
}

/* --- header and footer --- */

static uint32_t load_u32(const uint8_t *at)
{
	uint32_t value;
	memcpy(&value, at, sizeof(value));
	return value;
}

static bool has_tag(const uint8_t *at, const char *tag)
{
	return !memcmp(at, tag, TRACE_TAG_BYTES);
}

static struct ht_err *check_version(struct trace_reader *reader, const uint8_t *at)
{
	struct bytes in = bytes_of(at, 2 * sizeof(uint16_t));
	uint16_t major = 0;
	uint16_t minor = 0;
	if (bytes_u16(&in, &major) && bytes_u16(&in, &minor) && major >= TRACE_MAJOR_OLDEST &&
		major <= TRACE_MAJOR)
		return NULL;
	return trace_damaged(reader,
		"has trace format %u.%u, this program reads formats %u and %u; use the "
		"heaptap-analyze of the version that wrote it",
		major, minor, TRACE_MAJOR_OLDEST, TRACE_MAJOR);
}

static struct ht_err *read_header(struct trace_reader *reader)
{
	HT_TRY(input_fill(reader, TRACE_SKIPPABLE_BYTES + TRACE_HEADER_MIN));
	if (!input_left(reader))
		return trace_damaged(reader, "the file is empty: no capture has written to it");
	HT_TRY(input_need(reader, TRACE_SKIPPABLE_BYTES + TRACE_HEADER_MIN, "header"));
	if (load_u32(input(reader)) != TRACE_SKIPPABLE_MAGIC ||
		!has_tag(input(reader) + TRACE_SKIPPABLE_BYTES, TRACE_HEADER_TAG))
		return trace_damaged(reader, "not a heaptap trace");
	uint32_t length = load_u32(input(reader) + sizeof(uint32_t));
	if (length < TRACE_HEADER_MIN || length > TRACE_HEADER_MAX)
		return trace_damaged(reader, "header of %u bytes: damaged", length);
	HT_TRY(input_need(reader, TRACE_SKIPPABLE_BYTES + length, "header"));
	const uint8_t *payload = input(reader) + TRACE_SKIPPABLE_BYTES;
	size_t covered = length - sizeof(uint32_t);
	if (trace_crc32(0, payload, covered) != load_u32(payload + covered))
		return trace_damaged(reader, "the header's checksum does not match: damaged");
	HT_TRY(check_version(reader, payload + TRACE_TAG_BYTES));
	input_consume(reader, TRACE_SKIPPABLE_BYTES + length);
	return NULL;
}

/* Skips the next `length` bytes and continues `crc` over them. */
static struct ht_err *skip_index(struct trace_reader *reader, uint64_t length, uint32_t *crc)
{
	while (length) {
		HT_TRY(input_need(reader, 1, "footer"));
		size_t part = length < input_left(reader) ? length : input_left(reader);
		*crc = trace_crc32(*crc, input(reader), part);
		input_consume(reader, part);
		length -= part;
	}
	return NULL;
}

static struct ht_err *check_trailer(
	struct trace_reader *reader, const struct trace_trailer *trailer, uint64_t footer_offset)
{
	if (trailer->blocks != reader->blocks || trailer->records != reader->record_count)
		return trace_damaged(reader,
			"the footer counts %llu blocks and %llu records, found are %llu and %llu",
			(ull)trailer->blocks, (ull)trailer->records, (ull)reader->blocks,
			(ull)reader->record_count);
	if (trailer->footer_offset != footer_offset)
		return trace_damaged(reader, "the footer belongs at byte %llu and stands at %llu",
			(ull)trailer->footer_offset, (ull)footer_offset);
	return NULL;
}

static struct ht_err *read_footer(struct trace_reader *reader)
{
	const uint64_t footer_offset = reader->offset;
	HT_TRY(input_need(reader, TRACE_SKIPPABLE_BYTES + TRACE_TAG_BYTES, "footer"));
	uint32_t length = load_u32(input(reader) + sizeof(uint32_t));
	if (length < TRACE_FOOTER_MIN ||
		!has_tag(input(reader) + TRACE_SKIPPABLE_BYTES, TRACE_FOOTER_TAG))
		return trace_damaged(
			reader, "the footer at byte %llu is damaged", (ull)footer_offset);
	input_consume(reader, TRACE_SKIPPABLE_BYTES);

	struct trace_trailer trailer;
	uint32_t crc = 0;
	HT_TRY(skip_index(reader, length - sizeof(trailer), &crc));
	HT_TRY(input_need(reader, sizeof(trailer), "footer"));
	memcpy(&trailer, input(reader), sizeof(trailer));
	crc = trace_crc32(crc, &trailer, offsetof(struct trace_trailer, crc));
	if (crc != trailer.crc || !has_tag(trailer.tag, TRACE_TRAILER_TAG))
		return trace_damaged(reader,
			"the checksum of the footer at byte %llu does not match",
			(ull)footer_offset);
	HT_TRY(check_trailer(reader, &trailer, footer_offset));
	input_consume(reader, sizeof(trailer));
	HT_TRY(input_fill(reader, 1));
	if (input_left(reader))
		return trace_damaged(reader,
			"something follows the end of the trace, at byte %llu, and is not read",
			(ull)reader->offset);
	reader->end = TRACE_COMPLETE;
	return NULL;
}

/* --- blocks --- */

static struct ht_err *lz4_damage(struct trace_reader *reader, size_t code)
{
	const char *name = LZ4F_getErrorName(code);
	if (strstr(name, "hecksum"))
		return block_damaged(reader, "its checksum does not match (%s)", name);
	return block_damaged(reader, "it does not decompress (%s)", name);
}

/* Reads the frame's own header: how long the records are. */
static struct ht_err *open_block(struct trace_reader *reader, size_t *ret_length)
{
	HT_TRY(input_need(reader, LZ4F_MIN_SIZE_TO_KNOW_HEADER_LENGTH, "last block"));
	size_t head = LZ4F_headerSize(input(reader), LZ4F_MIN_SIZE_TO_KNOW_HEADER_LENGTH);
	if (LZ4F_isError(head))
		return lz4_damage(reader, head);
	HT_TRY(input_need(reader, head, "last block"));
	LZ4F_frameInfo_t info;
	size_t hint = LZ4F_getFrameInfo(reader->lz4, &info, input(reader), &head);
	if (LZ4F_isError(hint))
		return lz4_damage(reader, hint);
	if (!info.contentSize || info.contentSize > TRACE_BLOCK_MAX)
		return block_damaged(reader, "it claims %llu bytes of records, the limit is %u",
			(ull)info.contentSize, TRACE_BLOCK_MAX);
	if (info.contentChecksumFlag != LZ4F_contentChecksumEnabled ||
		info.blockChecksumFlag != LZ4F_blockChecksumEnabled ||
		info.blockMode != LZ4F_blockIndependent || info.dictID)
		return block_damaged(reader, "it lacks a checksum, or needs data from elsewhere");
	input_consume(reader, head);
	*ret_length = info.contentSize;
	return NULL;
}

static struct ht_err *decompress_block(struct trace_reader *reader, size_t length)
{
	size_t done = 0;
	for (;;) {
		HT_TRY(input_need(reader, 1, "last block"));
		size_t from = input_left(reader);
		size_t to = length - done;
		size_t hint = LZ4F_decompress(
			reader->lz4, reader->block.data + done, &to, input(reader), &from, NULL);
		if (LZ4F_isError(hint))
			return lz4_damage(reader, hint);
		input_consume(reader, from);
		done += to;
		if (!hint)
			return NULL;
		if (!from && !to)
			return block_damaged(
				reader, "it holds more than the %zu bytes it claims", length);
	}
}

static struct ht_err *read_block(struct trace_reader *reader)
{
	size_t length = 0;
	reader->block_offset = reader->offset;
	HT_TRY(open_block(reader, &length));
	HT_TRY(bytes_out_reserve(&reader->block, length));
	HT_TRY(decompress_block(reader, length));
	reader->records = bytes_of(reader->block.data, length);
	reader->blocks++;
	return NULL;
}

static struct ht_err *read_frame(struct trace_reader *reader)
{
	reader->frame_offset = reader->offset;
	HT_TRY(input_fill(reader, sizeof(uint32_t)));
	if (!input_left(reader))
		return trace_stops(reader, TRACE_TRUNCATED,
			"ends at byte %llu without a footer: the capture did not finish, or the "
			"file was cut",
			(ull)reader->offset);
	HT_TRY(input_need(reader, sizeof(uint32_t), "last block"));
	uint32_t magic = load_u32(input(reader));
	if (magic == TRACE_BLOCK_MAGIC)
		return read_block(reader);
	if (magic == TRACE_SKIPPABLE_MAGIC)
		return read_footer(reader);
	return trace_damaged(reader, "neither block nor footer at byte %llu, after block %llu",
		(ull)reader->offset, (ull)reader->blocks);
}

/* Turns COLUMNS back into EVENTS. */
static struct ht_err *join_columns(struct trace_reader *reader, struct rec *rec)
{
	reader->piece.length = 0;
	HT_TRY(columns_decode(rec->events.body, &reader->scratch, &reader->piece));
	rec->kind = REC_EVENTS;
	rec->events.body = bytes_of(reader->piece.data, reader->piece.length);
	return NULL;
}

static struct ht_err *read_record(struct trace_reader *reader, struct rec *ret)
{
	while (!bytes_left(&reader->records) && reader->end == TRACE_MORE)
		HT_TRY(read_frame(reader));
	if (reader->end != TRACE_MORE)
		return NULL;
	struct ht_err *err = rec_decode(&reader->records, ret);
	if (!err && ret->kind == REC_COLUMNS)
		err = reader->keeps_columns
			      ? columns_length(ret->events.body, &ret->events.piece_bytes)
			      : join_columns(reader, ret);
	if (err && err->code == HT_ERR_FORMAT) {
		reader->end = TRACE_DAMAGED;
		return ht_err_wrap(err, "%s: block %llu at byte %llu", reader->name,
			(ull)reader->blocks - 1, (ull)reader->block_offset);
	}
	reader->record_count += !err;
	return err;
}

/* --- the reader --- */

struct ht_err *trace_reader_create(int fd, const char *name, struct trace_reader **ret)
{
	struct trace_reader *reader = malloc(sizeof(*reader));
	if (!reader)
		return ht_err_new(HT_ERR_NOMEM, "no memory to read %s", name);
	memset(reader, 0, offsetof(struct trace_reader, input));
	reader->fd = fd;
	reader->limit = UINT64_MAX;
	reader->is_growing = growing_is_marked(fd);
	reader->name = strdup(name);
	struct ht_err *err = NULL;
	if (!reader->name ||
		LZ4F_isError(LZ4F_createDecompressionContext(&reader->lz4, LZ4F_VERSION)))
		err = ht_err_new(HT_ERR_NOMEM, "no memory to read %s", name);
	HT_THEN(err, read_header(reader));
	if (err) {
		trace_reader_destroy(reader);
		return err;
	}
	*ret = reader;
	return NULL;
}

void trace_reader_limit(struct trace_reader *reader, uint64_t bytes)
{
	uint64_t seen = trace_reader_seen(reader);
	uint64_t excess = seen > bytes ? seen - bytes : 0;
	reader->limit = seen > bytes ? 0 : bytes - seen;
	reader->input_end -= excess < input_left(reader) ? excess : input_left(reader);
}

void trace_reader_keep_columns(struct trace_reader *reader)
{
	reader->keeps_columns = true;
}

void trace_reader_destroy(struct trace_reader *reader)
{
	if (!reader)
		return;
	LZ4F_freeDecompressionContext(reader->lz4);
	bytes_out_deinit(&reader->block);
	bytes_out_deinit(&reader->scratch);
	bytes_out_deinit(&reader->piece);
	ht_err_free(reader->problem);
	free(reader->name);
	free(reader);
}

/* Replaces `cut`, which is freed, by an error that says that the file is still being written. */
static struct ht_err *call_growing(struct trace_reader *reader, struct ht_err *cut)
{
	ht_err_free(cut);
	return trace_stops(reader, TRACE_TRUNCATED,
		"still being written by a capture that runs; read up to byte %llu",
		(ull)reader->offset);
}

struct ht_err *trace_reader_next(
	struct trace_reader *reader, struct rec *ret, enum trace_end *ret_end)
{
	struct ht_err *err = read_record(reader, ret);
	if (err && err->code != HT_ERR_FORMAT)
		return err;
	if (err && reader->end == TRACE_TRUNCATED && reader->is_growing)
		err = call_growing(reader, err);
	if (err)
		reader->problem = err;
	*ret_end = reader->end;
	return NULL;
}

struct ht_err *trace_reader_continue(struct trace_reader *reader)
{
	const uint64_t excess = trace_reader_seen(reader) - reader->frame_offset;
	if (reader->end != TRACE_TRUNCATED || !reader->is_growing)
		return NULL;
	if (lseek(reader->fd, -(off_t)excess, SEEK_CUR) < 0)
		return ht_err_sys(errno, "cannot read on in %s", reader->name);
	ht_err_free(reader->problem);
	reader->problem = NULL;
	LZ4F_resetDecompressionContext(reader->lz4);
	/* Check before reading on: if the writer has finished by now, the file already holds its
	 * last bytes. */
	reader->is_growing = growing_is_marked(reader->fd);
	reader->offset = reader->frame_offset;
	reader->input_at = reader->input_end = 0;
	reader->input_ended = false;
	reader->end = TRACE_MORE;
	return NULL;
}

const char *trace_reader_problem(const struct trace_reader *reader)
{
	return reader->problem ? reader->problem->message : NULL;
}

bool trace_reader_is_growing(const struct trace_reader *reader)
{
	return reader->is_growing;
}

uint64_t trace_reader_offset(const struct trace_reader *reader)
{
	return reader->offset;
}

uint64_t trace_reader_seen(const struct trace_reader *reader)
{
	return reader->offset + input_left(reader);
}

uint64_t trace_reader_records(const struct trace_reader *reader)
{
	return reader->record_count;
}
