/* SPDX-License-Identifier: Apache-2.0
 *
 * Traces that are read while they are written, up to a limit, and with bytes behind their end.
 */
#include "format/growing.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "format/reader.h"
#include "tests/support/ht_check.h"
#include "tests/support/tracebuild.h"

#define HEADER_BYTES 20u

static void make_trace(struct bytes_out *ret)
{
	struct tracebuild build;
	tracebuild_init(&build);
	tracebuild_start(&build, 77, 1000, 1000);
	for (uint64_t i = 1; i < 5; i++) {
		tracebuild_thread(&build, i, "some thread");
		ck_no_err(trace_writer_flush(build.writer));
	}
	tracebuild_slurp(tracebuild_finish(&build), ret);
	tracebuild_deinit(&build);
}

struct ended {
	enum trace_end how;
	bool is_growing;
	uint64_t records;
	char problem[256];
};

static struct ended read_on(struct trace_reader *reader)
{
	struct ended ended = {0};
	struct rec rec;
	do
		ck_no_err(trace_reader_next(reader, &rec, &ended.how));
	while (ended.how == TRACE_MORE);
	ended.is_growing = trace_reader_is_growing(reader);
	ended.records = trace_reader_records(reader);
	const char *problem = trace_reader_problem(reader);
	snprintf(ended.problem, sizeof(ended.problem), "%s", problem ? problem : "");
	trace_reader_destroy(reader);
	return ended;
}

/* Reads the trace from the beginning of `fd`. */
static struct ended read_fd(int fd, uint64_t limit)
{
	struct trace_reader *reader;
	ck_assert_int_eq(lseek(fd, 0, SEEK_SET), 0);
	ck_no_err(trace_reader_create(fd, "x.htap", &reader));
	trace_reader_limit(reader, limit);
	return read_on(reader);
}

static struct ended read_bytes(const struct bytes_out *trace, size_t length, uint64_t limit)
{
	int fd = tracebuild_memfd(trace->data, length);
	struct ended ended = read_fd(fd, limit);
	close(fd);
	return ended;
}

HT_TEST(bytes_after_the_footer_are_damage)
{
	struct bytes_out trace = {0};
	make_trace(&trace);
	struct ended whole = read_bytes(&trace, trace.length, UINT64_MAX);
	ck_assert_int_eq(whole.how, TRACE_COMPLETE);
	ck_no_err(bytes_out_u8(&trace, 0));
	struct ended longer = read_bytes(&trace, trace.length, UINT64_MAX);
	ck_assert_int_eq(longer.how, TRACE_DAMAGED);
	ck_assert_uint_eq(longer.records, whole.records);
	ck_assert_ptr_nonnull(strstr(longer.problem, "something follows the end"));
	bytes_out_deinit(&trace);
}

HT_TEST(a_limit_is_an_end)
{
	struct bytes_out trace = {0};
	make_trace(&trace);
	for (size_t length = HEADER_BYTES; length <= trace.length; length++) {
		struct ended limited = read_bytes(&trace, trace.length, length);
		struct ended cut = read_bytes(&trace, length, UINT64_MAX);
		ck_assert_int_eq(limited.how, cut.how);
		ck_assert_uint_eq(limited.records, cut.records);
		ck_assert_str_eq(limited.problem, cut.problem);
	}
	bytes_out_deinit(&trace);
}

/* Closing another descriptor of the file does not release the mark; the end of its owner does. */
HT_TEST(a_file_that_is_being_written_is_growing)
{
	struct bytes_out trace = {0};
	char path[64];
	make_trace(&trace);
	int fd = tracebuild_memfd(trace.data, trace.length - 1);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	int reader = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert(!read_fd(reader, UINT64_MAX).is_growing);
	growing_mark(fd);
	close(open(path, O_RDONLY | O_CLOEXEC));
	struct ended ended = read_fd(reader, UINT64_MAX);
	ck_assert_int_eq(ended.how, TRACE_TRUNCATED);
	ck_assert(ended.is_growing);
	ck_assert_ptr_nonnull(strstr(ended.problem, "still being written"));
	close(fd);
	ck_assert(!read_fd(reader, UINT64_MAX).is_growing);
	close(reader);
	bytes_out_deinit(&trace);
}

HT_SUITE("format/growing")
