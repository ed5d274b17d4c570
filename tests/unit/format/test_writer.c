/* SPDX-License-Identifier: Apache-2.0 */
#include "format/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "format/container.h"
#include "format/reader.h"
#include "tests/support/ht_check.h"
#include "tests/support/tracebuild.h"

#define MARK_BYTES	 4000u
#define MARKS_BELOW_FULL (TRACE_BLOCK_BYTES / (MARK_BYTES + 8)) /* 8: record heads and time */

/* A record that LZ4 cannot shrink, different for each `number`. */
static struct rec noisy_mark(unsigned int number)
{
	static char noise[MARK_BYTES];
	uint64_t state = number + 1;
	for (size_t i = 0; i < sizeof(noise); i++) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		noise[i] = (char)(state >> 56);
	}
	return (struct rec){.kind = REC_MARK, .mark = {number, {noise, sizeof(noise)}}};
}

static void put_marks(struct trace_writer *writer, unsigned int from, unsigned int to)
{
	for (unsigned int i = from; i < to; i++) {
		struct rec rec = noisy_mark(i);
		ck_no_err(trace_writer_put(writer, &rec));
	}
}

/* Reads marks 0, 1, 2 ... and nothing else; returns how many there are. */
static unsigned int read_marks(int fd, enum trace_end want_end)
{
	static struct rec rec;
	struct trace_reader *reader;
	enum trace_end end;
	unsigned int count = 0;
	ck_no_err(trace_reader_create(fd, "test", &reader));
	for (;;) {
		ck_no_err(trace_reader_next(reader, &rec, &end));
		if (end != TRACE_MORE)
			break;
		struct rec want = noisy_mark(count);
		ck_assert_uint_eq(rec.mark.mono_ns, count++);
		ck_assert_uint_eq(rec.mark.text.length, MARK_BYTES);
		ck_assert_mem_eq(rec.mark.text.data, want.mark.text.data, MARK_BYTES);
	}
	ck_assert_int_eq(end, want_end);
	trace_reader_destroy(reader);
	return count;
}

static uint64_t file_bytes(int fd)
{
	struct stat st;
	ck_assert_int_eq(fstat(fd, &st), 0);
	return (uint64_t)st.st_size;
}

HT_TEST(blocks_close_when_full)
{
	int fd = tracebuild_memfd("", 0);
	struct trace_writer *writer;
	ck_no_err(trace_writer_create(fd, &writer));
	uint64_t header = trace_writer_bytes(writer);
	ck_assert_uint_eq(header, TRACE_SKIPPABLE_BYTES + TRACE_HEADER_MIN);
	unsigned int count = MARKS_BELOW_FULL + 1;
	put_marks(writer, 0, count);
	ck_assert_uint_eq(trace_writer_bytes(writer), header);
	put_marks(writer, count, count + 1);
	ck_assert_uint_gt(trace_writer_bytes(writer), header);
	uint64_t one_block = trace_writer_bytes(writer);
	ck_no_err(trace_writer_flush(writer));
	ck_assert_uint_gt(trace_writer_bytes(writer), one_block);
	uint64_t two_blocks = trace_writer_bytes(writer);
	ck_no_err(trace_writer_flush(writer));
	ck_assert_uint_eq(trace_writer_bytes(writer), two_blocks);
	ck_no_err(trace_writer_finish(writer));
	ck_assert_uint_eq(file_bytes(fd), trace_writer_bytes(writer));
	struct rec rec = noisy_mark(0);
	ck_err(trace_writer_put(writer, &rec), HT_ERR_INTERNAL);
	uint64_t finished = file_bytes(fd);
	ck_no_err(trace_writer_finish(writer));
	ck_assert_uint_eq(file_bytes(fd), finished);
	trace_writer_destroy(writer);
	trace_writer_destroy(NULL);
	lseek(fd, 0, SEEK_SET);
	ck_assert_uint_eq(read_marks(fd, TRACE_COMPLETE), count + 1);
	close(fd);
}

HT_TEST(the_largest_record_fits_any_block)
{
	static struct rec rec;
	char *body = calloc(1, TRACE_RECORD_MAX);
	struct rec big = {.kind = REC_EVENTS, .events.body = bytes_of(body, TRACE_RECORD_MAX - 3)};
	int fd = tracebuild_memfd("", 0);
	struct trace_writer *writer;
	ck_no_err(trace_writer_create(fd, &writer));
	put_marks(writer, 0, MARKS_BELOW_FULL);
	ck_no_err(trace_writer_put(writer, &big));
	ck_no_err(trace_writer_finish(writer));
	trace_writer_destroy(writer);
	lseek(fd, 0, SEEK_SET);
	struct trace_reader *reader;
	enum trace_end end;
	ck_no_err(trace_reader_create(fd, "test", &reader));
	for (unsigned int i = 0; i <= MARKS_BELOW_FULL; i++) {
		ck_no_err(trace_reader_next(reader, &rec, &end));
		ck_assert_int_eq(end, TRACE_MORE);
	}
	ck_assert_int_eq(rec.kind, REC_EVENTS);
	ck_no_err(trace_reader_next(reader, &rec, &end));
	ck_assert_int_eq(end, TRACE_COMPLETE);
	trace_reader_destroy(reader);
	free(body);
	close(fd);
}

/* The index must agree with the file about each block. */
HT_TEST(the_index_leads_to_each_block)
{
	enum { BLOCKS = 5 };
	struct tracebuild build;
	uint64_t offset[BLOCKS];
	tracebuild_init(&build);
	for (uint64_t i = 0; i < BLOCKS; i++) {
		offset[i] = trace_writer_bytes(build.writer);
		for (uint64_t n = 0; n <= i; n++)
			tracebuild_rss(&build, n, n);
		if (i != 2) {
			const struct rec sync = {
				.kind = REC_SYNC, .sync = {1000 - i, 7 * i, i * i}};
			tracebuild_put(&build, &sync);
		}
		ck_no_err(trace_writer_flush(build.writer));
	}
	uint64_t footer_at = trace_writer_bytes(build.writer);
	struct bytes_out file;
	struct trace_trailer trailer;
	tracebuild_slurp(tracebuild_finish(&build), &file);
	memcpy(&trailer, file.data + file.length - sizeof(trailer), sizeof(trailer));
	ck_assert_mem_eq(trailer.tag, TRACE_TRAILER_TAG, TRACE_TAG_BYTES);
	ck_assert_uint_eq(trailer.blocks, BLOCKS);
	ck_assert_uint_eq(trailer.records, 1 + 2 + 3 + 4 + 5 + 4);
	ck_assert_uint_eq(trailer.footer_offset, footer_at);
	struct bytes in =
		bytes_of(file.data + footer_at, file.length - footer_at - sizeof(trailer));
	const uint8_t *head;
	ck_assert(bytes_take(&in, TRACE_SKIPPABLE_BYTES + TRACE_TAG_BYTES, &head));
	ck_assert_mem_eq(head + TRACE_SKIPPABLE_BYTES, TRACE_FOOTER_TAG, TRACE_TAG_BYTES);
	uint64_t sum[5] = {0};
	for (uint64_t i = 0; i < BLOCKS; i++) {
		for (size_t field = 0; field < HT_ARRAY_SIZE(sum); field++) {
			uint64_t difference;
			ck_assert(bytes_uleb(&in, &difference));
			sum[field] = difference + (field == 1 ? 0 : sum[field]);
		}
		uint64_t sync = i == 2 ? 1 : i;
		uint32_t magic;
		memcpy(&magic, file.data + offset[i], sizeof(magic));
		ck_assert_uint_eq(magic, TRACE_BLOCK_MAGIC);
		ck_assert_uint_eq(sum[0], offset[i]);
		ck_assert_uint_eq(sum[1], i + 1 + (i != 2));
		ck_assert_uint_eq(sum[2], 7 * sync);
		ck_assert_uint_eq(sum[3], 1000 - sync);
		ck_assert_uint_eq(sum[4], sync * sync);
	}
	ck_assert_uint_eq(bytes_left(&in), 0);
	bytes_out_deinit(&file);
	tracebuild_deinit(&build);
}

HT_TEST(a_full_device_is_an_error_and_can_be_retried)
{
	int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
	ck_assert_int_ge(full, 0);
	struct trace_writer *writer = NULL;
	ck_err_says(trace_writer_create(full, &writer), HT_ERR_SYS, "No space left");
	ck_assert_ptr_null(writer);

	int fd = tracebuild_memfd("", 0);
	int file = dup(fd);
	ck_no_err(trace_writer_create(fd, &writer));
	uint64_t header = trace_writer_bytes(writer);
	put_marks(writer, 0, 3);
	ck_assert_int_eq(dup2(full, fd), fd);
	for (int i = 0; i < 3; i++)
		ck_err(trace_writer_flush(writer), HT_ERR_SYS);
	ck_err(trace_writer_finish(writer), HT_ERR_SYS);
	ck_assert_uint_eq(trace_writer_bytes(writer), header);
	put_marks(writer, 3, 6);
	ck_assert_int_eq(dup2(file, fd), fd);
	ck_no_err(trace_writer_finish(writer));
	trace_writer_destroy(writer);
	lseek(fd, 0, SEEK_SET);
	ck_assert_uint_eq(read_marks(fd, TRACE_COMPLETE), 6);
	close(full);
	close(file);
	close(fd);
}

/* Opens the file again, so that the new descriptor has a position of its own. */
static int reopen(int fd, int flags)
{
	char path[32];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	int again = open(path, flags | O_CLOEXEC);
	ck_assert_int_ge(again, 0);
	return again;
}

static void limit_file_size(rlim_t bytes)
{
	struct rlimit limit;
	ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = bytes;
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* The disk fills up within the second block; later there is room again. */
static void write_through_full_disk(int fd, uint64_t before)
{
	struct trace_writer *writer;
	signal(SIGXFSZ, SIG_IGN);
	ck_no_err(trace_writer_create(fd, &writer));
	put_marks(writer, 0, 4);
	ck_no_err(trace_writer_flush(writer));
	uint64_t whole = trace_writer_bytes(writer);
	put_marks(writer, 4, 8);
	limit_file_size(before + whole + MARK_BYTES);
	for (int i = 0; i < 2; i++) {
		ck_err_says(trace_writer_flush(writer), HT_ERR_SYS, "File too large");
		ck_assert_uint_eq(trace_writer_bytes(writer), whole);
		ck_assert_uint_eq(file_bytes(fd), before + whole);
	}
	ck_err(trace_writer_finish(writer), HT_ERR_SYS);
	ck_assert_uint_eq(file_bytes(fd), before + whole);

	int again = reopen(fd, O_RDONLY);
	lseek(again, (off_t)before, SEEK_SET);
	ck_assert_uint_eq(read_marks(again, TRACE_TRUNCATED), 4);

	put_marks(writer, 8, 9);
	limit_file_size(RLIM_INFINITY);
	ck_no_err(trace_writer_finish(writer));
	ck_assert_uint_eq(file_bytes(fd), before + trace_writer_bytes(writer));
	trace_writer_destroy(writer);
	lseek(again, (off_t)before, SEEK_SET);
	ck_assert_uint_eq(read_marks(again, TRACE_COMPLETE), 9);
	close(again);
}

HT_TEST(a_block_written_in_part_is_cut_off)
{
	int fd = tracebuild_memfd("", 0);
	write_through_full_disk(fd, 0);
	close(fd);
}

/* The position of an O_APPEND descriptor is 0 until something was written. */
HT_TEST(a_write_that_fails_at_once_cuts_nothing)
{
	char kept[6];
	struct trace_writer *writer;
	int file = tracebuild_memfd("before", 6);
	int fd = reopen(file, O_RDWR | O_APPEND);
	signal(SIGXFSZ, SIG_IGN);
	limit_file_size(6);
	struct ht_err *err = trace_writer_create(fd, &writer);
	limit_file_size(RLIM_INFINITY); /* Check writes its messages into files */
	ck_err(err, HT_ERR_SYS);
	ck_assert_uint_eq(file_bytes(file), 6);
	ck_assert_int_eq(pread(file, kept, 6, 0), 6);
	ck_assert_mem_eq(kept, "before", 6);
	close(fd);
	close(file);
}

HT_TEST(appending_keeps_the_files_contents)
{
	char kept[6];
	int file = tracebuild_memfd("before", 6);
	int fd = reopen(file, O_RDWR | O_APPEND);
	write_through_full_disk(fd, 6);
	ck_assert_int_eq(pread(file, kept, 6, 0), 6);
	ck_assert_mem_eq(kept, "before", 6);
	close(fd);
	close(file);
}

/* Writes to a file what the tests write through a pipe of one page; returns the bytes of the file.
 */
static void reference_trace(struct bytes_out *ret)
{
	int fd = tracebuild_memfd("", 0);
	struct trace_writer *writer;
	ck_no_err(trace_writer_create(fd, &writer));
	put_marks(writer, 0, 5);
	ck_no_err(trace_writer_flush(writer));
	put_marks(writer, 5, 6);
	ck_no_err(trace_writer_finish(writer));
	trace_writer_destroy(writer);
	tracebuild_slurp(fd, ret);
	close(fd);
}

static int pipe_in, pipe_out;
static uint8_t received[1u << 17];
static volatile size_t received_bytes;

static void make_small_pipe(int flags)
{
	int ends[2];
	ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
	pipe_out = ends[0];
	pipe_in = ends[1];
	ck_assert_int_ge(fcntl(pipe_in, F_SETPIPE_SZ, 4096), 4096);
	ck_assert_int_eq(fcntl(pipe_in, F_SETFL, flags), 0);
	ck_assert_int_eq(fcntl(pipe_out, F_SETFL, O_NONBLOCK), 0);
}

static void drain_pipe(void)
{
	ssize_t n = read(pipe_out, received + received_bytes, sizeof(received) - received_bytes);
	if (n > 0)
		received_bytes += (size_t)n;
}

static void check_received(void)
{
	struct bytes_out want;
	reference_trace(&want);
	drain_pipe();
	ck_assert_uint_eq(received_bytes, want.length);
	ck_assert_mem_eq(received, want.data, want.length);
	bytes_out_deinit(&want);
	close(pipe_in);
	close(pipe_out);
}

/* Repeats `write_more` and empties the pipe until the write succeeds. Returns how often the pipe
 * was full. */
static unsigned int retry(
	struct ht_err *(*write_more)(struct trace_writer *), struct trace_writer *writer)
{
	for (unsigned int refused = 0;; refused++) {
		struct ht_err *err = write_more(writer);
		if (!err)
			return refused;
		ck_assert_int_eq(err->sys, EAGAIN);
		ht_err_free(err);
		drain_pipe();
	}
}

HT_TEST(a_pipe_gets_the_rest_of_a_block_later)
{
	struct trace_writer *writer;
	make_small_pipe(O_NONBLOCK);
	ck_no_err(trace_writer_create(pipe_in, &writer));
	put_marks(writer, 0, 5);
	ck_err_says(trace_writer_flush(writer), HT_ERR_SYS, "temporarily unavailable");
	put_marks(writer, 5, 6);
	ck_assert_uint_gt(retry(trace_writer_finish, writer), 3);
	trace_writer_destroy(writer);
	check_received();
}

static volatile sig_atomic_t alarms;

static void on_alarm(int signal)
{
	(void)signal;
	alarms++;
	drain_pipe();
}

/* Only the signal handler empties the pipe: every write beyond its size is interrupted. */
HT_TEST(interrupted_and_short_writes_go_on)
{
	struct trace_writer *writer;
	const struct sigaction action = {.sa_handler = on_alarm};
	const struct itimerval often = {{0, 1000}, {0, 1000}};
	const struct itimerval never = {{0, 0}, {0, 0}};
	make_small_pipe(0);
	ck_assert_int_eq(sigaction(SIGALRM, &action, NULL), 0);
	ck_no_err(trace_writer_create(pipe_in, &writer));
	ck_assert_int_eq(setitimer(ITIMER_REAL, &often, NULL), 0);
	put_marks(writer, 0, 5);
	ck_no_err(trace_writer_flush(writer));
	put_marks(writer, 5, 6);
	ck_no_err(trace_writer_finish(writer));
	ck_assert_int_eq(setitimer(ITIMER_REAL, &never, NULL), 0);
	ck_assert_int_gt(alarms, 3);
	trace_writer_destroy(writer);
	check_received();
}

static void run_lz4(int in, int out)
{
	char name[] = "lz4";
	char options[] = "-dcq";
	char *const argv[] = {name, options, NULL};
	posix_spawn_file_actions_t actions;
	pid_t pid;
	int status;
	ck_assert_int_eq(posix_spawn_file_actions_init(&actions), 0);
	ck_assert_int_eq(posix_spawn_file_actions_adddup2(&actions, in, 0), 0);
	ck_assert_int_eq(posix_spawn_file_actions_adddup2(&actions, out, 1), 0);
	ck_assert_int_eq(posix_spawnp(&pid, "lz4", &actions, NULL, argv, environ), 0);
	posix_spawn_file_actions_destroy(&actions);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}

/* lz4(1) decompresses the file to the records, block after block. */
HT_TEST(lz4_decodes_the_file)
{
	struct bytes_out want = {0};
	struct bytes_out got;
	struct tracebuild build;
	tracebuild_init(&build);
	for (unsigned int i = 0; i < 100; i++) {
		struct rec rec = noisy_mark(i);
		tracebuild_put(&build, &rec);
		ck_no_err(rec_encode(&want, &rec));
	}
	int fd = tracebuild_finish(&build);
	int plain = tracebuild_memfd("", 0);
	run_lz4(fd, plain);
	tracebuild_slurp(plain, &got);
	ck_assert_uint_eq(got.length, want.length);
	ck_assert_mem_eq(got.data, want.data, want.length);
	bytes_out_deinit(&want);
	bytes_out_deinit(&got);
	close(plain);
	tracebuild_deinit(&build);
}

/* Puts a record of events into a trace, and checks the record's kind in the file. */
static void check_kind_of_events(struct rec_events events, uint8_t want_kind)
{
	static struct rec rec;
	struct tracebuild build;
	struct trace_reader *reader;
	enum trace_end end;
	const struct rec put = {.kind = REC_EVENTS, .events = events};
	tracebuild_init(&build);
	tracebuild_put(&build, &put);
	int fd = tracebuild_finish(&build), plain = tracebuild_memfd("", 0);
	run_lz4(fd, plain);
	struct bytes_out records = {0};
	tracebuild_slurp(plain, &records);
	ck_assert_uint_gt(records.length, 0);
	ck_assert_uint_eq(records.data[0], want_kind);
	lseek(fd, 0, SEEK_SET);
	ck_no_err(trace_reader_create(fd, "test", &reader));
	ck_no_err(trace_reader_next(reader, &rec, &end));
	ck_assert_int_eq(end, TRACE_MORE);
	ck_assert_int_eq(rec.kind, REC_EVENTS);
	ck_assert_uint_eq(rec.events.slot, events.slot);
	ck_assert_uint_eq(rec.events.position, events.position);
	ck_assert_uint_eq(rec.events.flags, events.flags);
	const size_t length = bytes_left(&events.body);
	ck_assert_uint_eq(bytes_left(&rec.events.body), length);
	if (length)
		ck_assert_mem_eq(rec.events.body.at, events.body.at, length);
	ck_no_err(trace_reader_next(reader, &rec, &end));
	ck_assert_int_eq(end, TRACE_COMPLETE);
	trace_reader_destroy(reader);
	bytes_out_deinit(&records);
	close(plain);
	tracebuild_deinit(&build);
}

HT_TEST(events_are_sorted_where_that_is_possible_and_shorter)
{
	struct eventbuild build = {0};
	eventbuild_thread(&build, 1, 0);
	for (uint64_t i = 0; i < 100; i++)
		eventbuild_alloc(&build, ABI_EVENT_ALLOC, 0, 16 * i, 32 * i, 24, 1);
	struct rec_events events = {.slot = 1,
		.position = 1ull << 40,
		.flags = REC_EVENTS_RESTART,
		.body = bytes_of(build.out.data, build.out.length)};
	check_kind_of_events(events, REC_COLUMNS);
	events.flags = 2;
	events.body.end--;
	check_kind_of_events(events, REC_EVENTS);
	events.body.end = events.body.at + 9;
	check_kind_of_events(events, REC_EVENTS);
	events.body = bytes_of(NULL, 0);
	check_kind_of_events(events, REC_EVENTS);
	eventbuild_deinit(&build);
}

HT_TEST(the_checksum_is_that_of_zlib)
{
	ck_assert_uint_eq(trace_crc32(0, "123456789", 9), 0xcbf43926);
	ck_assert_uint_eq(trace_crc32(trace_crc32(0, "1234", 4), "56789", 5), 0xcbf43926);
}

HT_SUITE("format/writer")
