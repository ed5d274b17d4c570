/* SPDX-License-Identifier: Apache-2.0 */
#include "format/reader.h"

#include <fcntl.h>
#include <lz4frame.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format/container.h"
#include "tests/support/ht_check.h"
#include "tests/support/tracebuild.h"

#define HEADER_BYTES (TRACE_SKIPPABLE_BYTES + TRACE_HEADER_MIN)

/* The records that were read from a trace, encoded again one after the other, and how reading
 * ended. */
struct reading {
	struct bytes_out records;
	uint64_t count;
	enum trace_end end;
	char problem[256]; /* empty: none */
	uint64_t offset;
};

static void read_open(struct trace_reader *reader, struct reading *ret)
{
	static struct rec rec;
	*ret = (struct reading){0};
	for (;;) {
		ck_assert_ptr_null(trace_reader_problem(reader));
		ck_no_err(trace_reader_next(reader, &rec, &ret->end));
		if (ret->end != TRACE_MORE)
			break;
		ck_no_err(bytes_out_u8(&ret->records, (uint8_t)rec.kind));
		ck_no_err(bytes_out_put(&ret->records, rec.raw.data, rec.raw.length));
		ret->count++;
	}
	const char *problem = trace_reader_problem(reader);
	ck_assert((ret->end == TRACE_COMPLETE) == !problem);
	if (problem)
		strncpy(ret->problem, problem, sizeof(ret->problem) - 1);
	ret->offset = trace_reader_offset(reader);
	enum trace_end again;
	ck_no_err(trace_reader_next(reader, &rec, &again));
	ck_assert_int_eq(again, ret->end);
	trace_reader_destroy(reader);
}

static void read_fd(int fd, struct reading *ret)
{
	struct trace_reader *reader;
	ck_no_err(trace_reader_create(fd, "x.htap", &reader));
	read_open(reader, ret);
}

/* Returns false if the header is refused. */
static bool read_bytes(const void *data, size_t length, struct reading *ret)
{
	int fd = tracebuild_memfd(data, length);
	struct trace_reader *reader;
	struct ht_err *err = trace_reader_create(fd, "x.htap", &reader);
	if (err)
		ck_err(err, HT_ERR_FORMAT);
	else
		read_open(reader, ret);
	close(fd);
	return !err;
}

static void check_prefix(const struct reading *part, const struct reading *whole)
{
	ck_assert_uint_le(part->records.length, whole->records.length);
	if (part->records.length)
		ck_assert_mem_eq(part->records.data, whole->records.data, part->records.length);
}

/* A small trace of a few blocks. */
enum { BLOCKS = 4 };

struct sample {
	struct bytes_out file;
	uint64_t block_end[BLOCKS + 1];	    /* of block i; [0]: of the header */
	uint64_t records_until[BLOCKS + 1]; /* in the blocks before */
	struct reading whole;
};

static void end_block(struct tracebuild *build, struct sample *sample, int block, uint64_t records)
{
	ck_no_err(trace_writer_flush(build->writer));
	sample->block_end[block] = trace_writer_bytes(build->writer);
	sample->records_until[block] = records;
}

static void sample_init(struct sample *sample)
{
	struct tracebuild build;
	struct eventbuild events = {0};
	tracebuild_init(&build);
	end_block(&build, sample, 0, 0);
	tracebuild_start(&build, 4711, 100, 1000);
	tracebuild_module(&build, 1, "/usr/bin/target", "\xab\xcd", 0x1000, 0x9000);
	tracebuild_thread(&build, 4711, "main");
	end_block(&build, sample, 1, 4);
	uint32_t stack = tracebuild_stack(&build, (uint64_t[]){0x1234, 0x2345, 0x3456}, 3);
	eventbuild_thread(&events, 4711, 0);
	for (uint64_t i = 0; i < 20; i++)
		eventbuild_alloc(&events, ABI_EVENT_ALLOC, 0, 2000 + i, 0x5000 + 32 * i, 24, stack);
	tracebuild_events(&build, 0, &events);
	tracebuild_sync(&build, 3000, 300);
	end_block(&build, sample, 2, 9);
	tracebuild_rss(&build, 400, 1 << 20);
	end_block(&build, sample, 3, 10);
	tracebuild_loss(&build, REC_COUNTER_EVENTS, 20);
	tracebuild_end(&build, REC_END_DURATION, 500, 5000);
	end_block(&build, sample, 4, 12);
	tracebuild_slurp(tracebuild_finish(&build), &sample->file);
	eventbuild_deinit(&events);
	tracebuild_deinit(&build);
	ck_assert(read_bytes(sample->file.data, sample->file.length, &sample->whole));
}

static void sample_deinit(struct sample *sample)
{
	bytes_out_deinit(&sample->file);
	bytes_out_deinit(&sample->whole.records);
}

HT_TEST(a_whole_trace_is_complete)
{
	struct sample sample;
	sample_init(&sample);
	ck_assert_int_eq(sample.whole.end, TRACE_COMPLETE);
	ck_assert_uint_eq(sample.whole.count, 12);
	ck_assert_uint_eq(sample.whole.offset, sample.file.length);
	sample_deinit(&sample);
}

HT_TEST(a_trace_without_records_is_complete)
{
	struct tracebuild build;
	struct reading reading;
	tracebuild_init(&build);
	read_fd(tracebuild_finish(&build), &reading);
	ck_assert_int_eq(reading.end, TRACE_COMPLETE);
	ck_assert_uint_eq(reading.count, 0);
	tracebuild_deinit(&build);
}

HT_TEST(a_trace_cut_at_any_byte_gives_its_whole_blocks)
{
	struct sample sample;
	sample_init(&sample);
	for (size_t cut = 0; cut < sample.file.length; cut++) {
		struct reading reading;
		bool opened = read_bytes(sample.file.data, cut, &reading);
		ck_assert(opened == (cut >= HEADER_BYTES));
		if (!opened)
			continue;
		int blocks = 0;
		while (blocks < BLOCKS && cut >= sample.block_end[blocks + 1])
			blocks++;
		ck_assert_int_eq(reading.end, TRACE_TRUNCATED);
		ck_assert_uint_eq(reading.count, sample.records_until[blocks]);
		check_prefix(&reading, &sample.whole);
		bool between = cut == sample.block_end[blocks];
		const char *says = between	     ? "without a footer"
				   : blocks < BLOCKS ? "last block"
						     : "";
		ck_assert_msg(strstr(reading.problem, says), "%zu: %s", cut, reading.problem);
		ck_assert_ptr_nonnull(strstr(reading.problem, "x.htap: "));
		bytes_out_deinit(&reading.records);
	}
	sample_deinit(&sample);
}

HT_TEST(a_flipped_bit_never_goes_unnoticed)
{
	struct sample sample;
	sample_init(&sample);
	for (size_t bit = 0; bit < 8 * sample.file.length; bit++) {
		struct reading reading;
		size_t at = bit / 8;
		sample.file.data[at] ^= (uint8_t)(1u << bit % 8);
		bool opened = read_bytes(sample.file.data, sample.file.length, &reading);
		sample.file.data[at] ^= (uint8_t)(1u << bit % 8);
		ck_assert(opened == (at >= HEADER_BYTES));
		if (!opened)
			continue;
		int block = 0;
		while (block < BLOCKS && at >= sample.block_end[block + 1])
			block++;
		/* A length that grew may reach beyond the end: that looks like a cut. */
		ck_assert_msg(reading.end == TRACE_DAMAGED || reading.end == TRACE_TRUNCATED,
			"bit %zu: end %d", bit, (int)reading.end);
		ck_assert_uint_eq(reading.count, sample.records_until[block]);
		check_prefix(&reading, &sample.whole);
		bytes_out_deinit(&reading.records);
	}
	sample_deinit(&sample);
}

HT_TEST(noise_in_the_file_never_adds_records)
{
	struct sample sample;
	sample_init(&sample);
	uint64_t state = 1;
	uint8_t *copy = malloc(sample.file.length);
	for (int round = 0; round < 3000; round++) {
		struct reading reading;
		memcpy(copy, sample.file.data, sample.file.length);
		for (int i = 0; i < 1 + round % 8; i++) {
			state = state * 6364136223846793005u + 1442695040888963407u;
			size_t room = sample.file.length - HEADER_BYTES;
			copy[HEADER_BYTES + (state >> 33) % room] = (uint8_t)(state >> 25);
		}
		ck_assert(read_bytes(copy, sample.file.length, &reading));
		check_prefix(&reading, &sample.whole);
		bytes_out_deinit(&reading.records);
	}
	free(copy);
	sample_deinit(&sample);
}

HT_TEST(a_checksum_failure_names_its_block)
{
	struct sample sample;
	struct reading reading;
	char says[64];
	sample_init(&sample);
	sample.file.data[sample.block_end[2] - 1] ^= 1;
	ck_assert(read_bytes(sample.file.data, sample.file.length, &reading));
	ck_assert_int_eq(reading.end, TRACE_DAMAGED);
	snprintf(says, sizeof(says), "block 1 at byte %llu: its checksum does not match",
		(unsigned long long)sample.block_end[1]);
	ck_assert_msg(strstr(reading.problem, says), "%s", reading.problem);
	bytes_out_deinit(&reading.records);
	sample_deinit(&sample);
}

/* The checksums of the other blocks are right: only the footer shows that a block is missing. */
HT_TEST(a_missing_block_is_damage)
{
	struct sample sample;
	struct reading reading;
	sample_init(&sample);
	memmove(sample.file.data + sample.block_end[1], sample.file.data + sample.block_end[2],
		sample.file.length - sample.block_end[2]);
	size_t length = sample.file.length - (sample.block_end[2] - sample.block_end[1]);
	ck_assert(read_bytes(sample.file.data, length, &reading));
	ck_assert_int_eq(reading.end, TRACE_DAMAGED);
	ck_assert_ptr_nonnull(strstr(reading.problem, "counts 4 blocks and 12 records"));
	bytes_out_deinit(&reading.records);
	sample_deinit(&sample);
}

static void *feed_pipe(void *arg)
{
	const struct sample *sample = ((void **)arg)[0];
	int fd = *(int *)((void **)arg)[1];
	for (size_t i = 0; i < sample->file.length; i++)
		ck_assert_int_eq(write(fd, sample->file.data + i, 1), 1);
	close(fd);
	return NULL;
}

HT_TEST(a_pipe_is_read_as_it_comes)
{
	struct sample sample;
	struct reading reading;
	pthread_t feeder;
	int ends[2];
	sample_init(&sample);
	ck_assert_int_eq(pipe(ends), 0);
	void *arg[] = {&sample, &ends[1]};
	ck_assert_int_eq(pthread_create(&feeder, NULL, feed_pipe, arg), 0);
	read_fd(ends[0], &reading);
	ck_assert_int_eq(reading.end, TRACE_COMPLETE);
	ck_assert_uint_eq(reading.count, 12);
	check_prefix(&reading, &sample.whole);
	pthread_join(feeder, NULL);
	bytes_out_deinit(&reading.records);
	close(ends[0]);
	sample_deinit(&sample);
}

HT_TEST(an_io_error_is_an_error)
{
	struct trace_reader *reader;
	int fd = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_err_says(
		trace_reader_create(fd, "x.htap", &reader), HT_ERR_SYS, "x.htap: Is a directory");
	close(fd);
}

/* --- headers and blocks made by hand --- */

static void put_u32(struct bytes_out *out, uint32_t value)
{
	ck_no_err(bytes_out_put(out, &value, sizeof(value)));
}

static void put_header(
	struct bytes_out *out, uint16_t major, uint16_t minor, const void *more, size_t length)
{
	struct bytes_out payload = {0};
	ck_no_err(bytes_out_put(&payload, TRACE_HEADER_TAG, TRACE_TAG_BYTES));
	ck_no_err(bytes_out_put(&payload, &major, sizeof(major)));
	ck_no_err(bytes_out_put(&payload, &minor, sizeof(minor)));
	ck_no_err(bytes_out_put(&payload, more, length));
	put_u32(&payload, trace_crc32(0, payload.data, payload.length));
	put_u32(out, TRACE_SKIPPABLE_MAGIC);
	put_u32(out, (uint32_t)payload.length);
	ck_no_err(bytes_out_put(out, payload.data, payload.length));
	bytes_out_deinit(&payload);
}

static void put_block(struct bytes_out *out, const LZ4F_preferences_t *preferences,
	const void *records, size_t length)
{
	size_t bound = LZ4F_compressFrameBound(length, preferences);
	ck_no_err(bytes_out_reserve(out, bound));
	size_t n = LZ4F_compressFrame(out->data + out->length, bound, records, length, preferences);
	ck_assert(!LZ4F_isError(n));
	out->length += n;
}

static LZ4F_preferences_t proper_block(size_t length)
{
	return (LZ4F_preferences_t){
		.frameInfo.blockSizeID = LZ4F_max4MB,
		.frameInfo.blockMode = LZ4F_blockIndependent,
		.frameInfo.contentChecksumFlag = LZ4F_contentChecksumEnabled,
		.frameInfo.blockChecksumFlag = LZ4F_blockChecksumEnabled,
		.frameInfo.contentSize = length,
	};
}

static void check_open_refused(const struct bytes_out *file, const char *says)
{
	struct trace_reader *reader = NULL;
	int fd = tracebuild_memfd(file->data, file->length);
	ck_err_says(trace_reader_create(fd, "x.htap", &reader), HT_ERR_FORMAT, says);
	ck_assert_ptr_null(reader);
	close(fd);
}

HT_TEST(refuses_other_files)
{
	struct bytes_out file = {0};
	check_open_refused(&file, "x.htap: the file is empty");
	ck_no_err(bytes_out_put(&file, "#!/bin/sh\n", 10));
	check_open_refused(&file, "x.htap: cut within its header");
	ck_no_err(bytes_out_put(&file, "echo this is no trace\n", 22));
	check_open_refused(&file, "x.htap: not a heaptap trace");
	file.length = 0;
	put_u32(&file, TRACE_SKIPPABLE_MAGIC);
	ck_no_err(bytes_out_put(&file, "\377\377\377\377" TRACE_HEADER_TAG "\1\0\0\0________", 20));
	check_open_refused(&file, "damaged");
	bytes_out_deinit(&file);
}

HT_TEST(a_newer_major_version_is_refused_with_a_remedy)
{
	struct bytes_out file = {0};
	put_header(&file, 3, 7, "", 0);
	check_open_refused(
		&file, "format 3.7, this program reads formats 1 and 2; use the heaptap-analyze");
	bytes_out_deinit(&file);
}

/* Traces as older versions wrote them: no piece of events is sorted. */
HT_TEST(older_versions_are_read)
{
	static const uint8_t events[] = {
		REC_EVENTS, 14, 1, 2, REC_EVENTS_RESTART, 1, 5, 0, 0, 0, 0, 0, 0, 0, 7, 1};
	for (uint16_t minor = 0; minor < 2; minor++) {
		struct bytes_out file = {0};
		struct reading reading;
		LZ4F_preferences_t preferences = proper_block(sizeof(events));
		put_header(&file, 1, minor, "", 0);
		put_block(&file, &preferences, events, sizeof(events));
		ck_assert(read_bytes(file.data, file.length, &reading));
		ck_assert_uint_eq(reading.count, 1);
		ck_assert_uint_eq(reading.records.data[0], REC_EVENTS);
		ck_assert_mem_eq(reading.records.data + 1, events + 2, sizeof(events) - 2);
		bytes_out_deinit(&reading.records);
		bytes_out_deinit(&file);
	}
}

HT_TEST(a_newer_minor_version_is_read)
{
	static struct rec rec;
	struct bytes_out file = {0};
	struct bytes_out records = {0};
	struct reading reading;
	const struct rec later = {.kind = (enum rec_kind)99, .raw = {"what", 4}};
	const struct rec known = {.kind = REC_RSS, .rss = {1, 2}};
	ck_no_err(rec_encode(&records, &later));
	ck_no_err(rec_encode(&records, &known));
	LZ4F_preferences_t preferences = proper_block(records.length);
	put_header(&file, TRACE_MAJOR, UINT16_MAX, "more fields", 11);
	put_block(&file, &preferences, records.data, records.length);
	ck_assert(read_bytes(file.data, file.length, &reading));
	ck_assert_int_eq(reading.end, TRACE_TRUNCATED);
	ck_assert_uint_eq(reading.count, 2);
	bytes_out_deinit(&reading.records);

	struct trace_reader *reader;
	enum trace_end end;
	int fd = tracebuild_memfd(file.data, file.length);
	ck_no_err(trace_reader_create(fd, "x.htap", &reader));
	ck_no_err(trace_reader_next(reader, &rec, &end));
	ck_assert_uint_eq(rec.kind, 99);
	ck_assert_uint_eq(rec.raw.length, 4);
	ck_assert_mem_eq(rec.raw.data, "what", 4);
	trace_reader_destroy(reader);
	close(fd);
	bytes_out_deinit(&records);
	bytes_out_deinit(&file);
}

/* One block behind a header, which must give nothing but damage. */
static void check_block_refused(
	const LZ4F_preferences_t *preferences, const void *records, size_t length, const char *says)
{
	struct bytes_out file = {0};
	struct reading reading;
	put_header(&file, TRACE_MAJOR, TRACE_MINOR, "", 0);
	put_block(&file, preferences, records, length);
	ck_assert(read_bytes(file.data, file.length, &reading));
	ck_assert_int_eq(reading.end, TRACE_DAMAGED);
	ck_assert_uint_eq(reading.count, 0);
	ck_assert_msg(strstr(reading.problem, says), "%s", reading.problem);
	ck_assert_ptr_nonnull(strstr(reading.problem, "block 0 at byte 20"));
	bytes_out_deinit(&file);
}

HT_TEST(malformed_columns_are_damage)
{
	/* One byte of the last column is missing. */
	static const uint8_t columns[] = {
		REC_COLUMNS, 16, 1, 2, 0, 5, 1, 1, 1, 1, 1, 0, 0, 3, 0, 1, 7, 8};
	LZ4F_preferences_t preferences = proper_block(sizeof(columns));
	check_block_refused(&preferences, columns, sizeof(columns), "malformed columns");
}

HT_TEST(blocks_not_framed_as_specified_are_refused)
{
	const uint8_t rss[] = {REC_RSS, 2, 1, 1};
	LZ4F_preferences_t preferences = proper_block(sizeof(rss));
	preferences.frameInfo.contentChecksumFlag = LZ4F_noContentChecksum;
	check_block_refused(&preferences, rss, sizeof(rss), "lacks a checksum");
	preferences = proper_block(sizeof(rss));
	preferences.frameInfo.blockChecksumFlag = LZ4F_noBlockChecksum;
	check_block_refused(&preferences, rss, sizeof(rss), "lacks a checksum");
	preferences = proper_block(sizeof(rss));
	preferences.frameInfo.dictID = 7;
	check_block_refused(&preferences, rss, sizeof(rss), "lacks a checksum");
	preferences = proper_block(0);
	check_block_refused(&preferences, rss, sizeof(rss), "claims 0 bytes");
}

/* LZ4 links blocks only in a frame of several blocks, so the content must be larger than one. */
HT_TEST(linked_blocks_are_refused)
{
	HT_FREED uint8_t *zeros = calloc(1, 100000);
	LZ4F_preferences_t preferences = proper_block(100000);
	preferences.frameInfo.blockSizeID = LZ4F_max64KB;
	preferences.frameInfo.blockMode = LZ4F_blockLinked;
	check_block_refused(&preferences, zeros, 100000, "needs data from elsewhere");
}

HT_TEST(a_block_beyond_the_limit_is_refused)
{
	HT_FREED uint8_t *zeros = calloc(1, TRACE_BLOCK_MAX + 1);
	LZ4F_preferences_t preferences = proper_block(TRACE_BLOCK_MAX + 1);
	check_block_refused(&preferences, zeros, TRACE_BLOCK_MAX + 1, "claims 2097153 bytes");
}

/* A frame of 5000 bytes whose header claims `claimed`, with a right checksum of the header. Reading
 * must end with damage, and a problem that contains `says`. */
static void check_lying_block(uint64_t claimed, const char *says)
{
	uint8_t head[LZ4F_HEADER_SIZE_MAX];
	uint8_t zeros[5000] = {0};
	struct bytes_out file = {0};
	struct reading reading;
	LZ4F_cctx *lz4;
	LZ4F_preferences_t preferences = proper_block(claimed);
	ck_assert(!LZ4F_isError(LZ4F_createCompressionContext(&lz4, LZ4F_VERSION)));
	size_t n = LZ4F_compressBegin(lz4, head, sizeof(head), &preferences);
	ck_assert(!LZ4F_isError(n));
	LZ4F_freeCompressionContext(lz4);
	put_header(&file, TRACE_MAJOR, TRACE_MINOR, "", 0);
	size_t block_at = file.length;
	preferences = proper_block(sizeof(zeros));
	preferences.frameInfo.blockSizeID = LZ4F_max64KB;
	put_block(&file, &preferences, zeros, sizeof(zeros));
	memcpy(file.data + block_at, head, n);
	ck_assert(read_bytes(file.data, file.length, &reading));
	ck_assert_int_eq(reading.end, TRACE_DAMAGED);
	ck_assert_msg(strstr(reading.problem, says), "%s", reading.problem);
	bytes_out_deinit(&file);
}

HT_TEST(a_block_that_lies_about_its_size_is_refused)
{
	check_lying_block(UINT64_MAX, "claims 18446744073709551615 bytes");
	check_lying_block(TRACE_BLOCK_MAX, "does not decompress");
	check_lying_block(5001, "does not decompress");
	check_lying_block(4999, "block 0");
	check_lying_block(1, "block 0");
}

HT_TEST(a_malformed_record_is_damage)
{
	const uint8_t records[] = {REC_RSS, 2, 1, 1, REC_RSS, 1, 1};
	LZ4F_preferences_t preferences = proper_block(sizeof(records));
	struct bytes_out file = {0};
	struct reading reading;
	put_header(&file, TRACE_MAJOR, TRACE_MINOR, "", 0);
	put_block(&file, &preferences, records, sizeof(records));
	ck_assert(read_bytes(file.data, file.length, &reading));
	ck_assert_int_eq(reading.end, TRACE_DAMAGED);
	ck_assert_uint_eq(reading.count, 1);
	ck_assert_str_eq(
		reading.problem, "x.htap: block 0 at byte 20: malformed RSS record of 1 bytes");
	bytes_out_deinit(&reading.records);
	bytes_out_deinit(&file);
}

/* A header and a footer of `length` payload bytes, its checksum right; the index is zeros. */
static void check_footer_refused(
	uint32_t length, uint64_t records, uint64_t footer_offset, const char *says)
{
	const uint8_t zeros[64] = {0};
	struct bytes_out file = {0};
	struct trace_trailer trailer = {.records = records, .footer_offset = footer_offset};
	struct reading reading;
	memcpy(trailer.tag, TRACE_TRAILER_TAG, TRACE_TAG_BYTES);
	put_header(&file, TRACE_MAJOR, TRACE_MINOR, "", 0);
	put_u32(&file, TRACE_SKIPPABLE_MAGIC);
	put_u32(&file, length);
	size_t payload_at = file.length;
	ck_no_err(bytes_out_put(&file, TRACE_FOOTER_TAG, TRACE_TAG_BYTES));
	if (length > TRACE_FOOTER_MIN)
		ck_no_err(bytes_out_put(&file, zeros, length - TRACE_FOOTER_MIN));
	ck_no_err(bytes_out_put(&file, &trailer, offsetof(struct trace_trailer, crc)));
	trailer.crc = trace_crc32(0, file.data + payload_at, file.length - payload_at);
	ck_no_err(bytes_out_put(&file, &trailer.crc, sizeof(trailer.crc) + TRACE_TAG_BYTES));
	ck_assert(read_bytes(file.data, file.length, &reading));
	ck_assert_int_eq(reading.end, says ? TRACE_DAMAGED : TRACE_COMPLETE);
	ck_assert_msg(!says || strstr(reading.problem, says), "%s", reading.problem);
	bytes_out_deinit(&file);
}

HT_TEST(a_footer_that_lies_is_damage)
{
	check_footer_refused(TRACE_FOOTER_MIN, 0, HEADER_BYTES, NULL);
	check_footer_refused(TRACE_FOOTER_MIN + 5, 0, HEADER_BYTES, NULL);
	check_footer_refused(TRACE_FOOTER_MIN - 1, 0, HEADER_BYTES, "is damaged");
	check_footer_refused(0, 0, HEADER_BYTES, "is damaged");
	check_footer_refused(TRACE_FOOTER_MIN, 1, HEADER_BYTES, "counts 0 blocks and 1 records");
	check_footer_refused(TRACE_FOOTER_MIN, 0, HEADER_BYTES + 1, "belongs at byte 21");
}

HT_SUITE("format/reader")
