/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/daemon/store.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "format/reader.h"
#include "tests/support/files.h"
#include "tests/support/ht_check.h"
#include "tests/support/mounts.h"
#include "tests/support/tmpdir.h"

#define NO_RESERVE     1u /* bytes that stay free on the disk; 0 would be the default */
#define BODY_BYTES     60000u
#define EVENTS_IN_BODY 1000u

static struct ht_err *open_store(const char *path, bool replace, struct store **ret)
{
	struct store_options options = {
		.path = path, .replace = replace, .reserve_bytes = NO_RESERVE};
	return store_create(&options, ret);
}

static void put_mark(struct store *store)
{
	struct rec rec = {.kind = REC_MARK, .mark = {.text = {.data = "here", .length = 4}}};
	ck_no_err(store_put(store, &rec, 0));
}

/* Puts a record of events whose bytes LZ4 cannot compress. */
static void put_events(struct store *store)
{
	static uint64_t body[BODY_BYTES / 8];
	static uint64_t word = 1;
	for (size_t i = 0; i < HT_ARRAY_SIZE(body); i++) {
		word ^= word << 13;
		word ^= word >> 7;
		word ^= word << 17;
		body[i] = word;
	}
	struct rec rec = {.kind = REC_EVENTS, .events.body = bytes_of(body, sizeof(body))};
	ck_no_err(store_put(store, &rec, EVENTS_IN_BODY));
}

static void put_end(struct store *store)
{
	struct rec rec = {.kind = REC_END, .end.reason = REC_END_DISK_FULL};
	ck_no_err(store_put(store, &rec, 0));
}

struct content {
	enum trace_end end;
	uint64_t records, events;
	bool has_end;
};

static struct content read_trace(int fd)
{
	struct content content = {0};
	struct trace_reader *reader;
	static struct rec rec;
	ck_assert_int_ge(fd, 0);
	ck_no_err(trace_reader_create(fd, "trace", &reader));
	for (;;) {
		ck_no_err(trace_reader_next(reader, &rec, &content.end));
		if (content.end != TRACE_MORE)
			break;
		content.records++;
		content.events += rec.kind == REC_EVENTS ? EVENTS_IN_BODY : 0;
		content.has_end |= rec.kind == REC_END;
	}
	trace_reader_destroy(reader);
	close(fd);
	return content;
}

static struct content read_trace_at(const char *path)
{
	return read_trace(open(path, O_RDONLY | O_CLOEXEC));
}

/* --- opening --- */

HT_TEST(a_new_file_is_private_and_complete)
{
	struct store *store;
	struct stat st;
	HT_FREED char *path = tmpdir_path("new");
	umask(0);
	ck_no_err(open_store(path, false, &store));
	put_mark(store);
	ck_no_err(store_finish(store));
	ck_assert_int_eq(store_status(store).state, STORE_OK);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_uint_eq(st.st_mode, S_IFREG | 0600);
	ck_assert_uint_eq((uint64_t)st.st_size, store_status(store).bytes);
	store_destroy(store);
	struct content content = read_trace_at(path);
	ck_assert_int_eq(content.end, TRACE_COMPLETE);
	ck_assert_uint_eq(content.records, 1);
}

HT_TEST(a_full_device_is_refused_at_once)
{
	struct store *store;
	ck_err_says(open_store("/dev/full", false, &store), HT_ERR_SYS, "No space left");
}

HT_TEST(the_null_device_takes_all)
{
	struct store *store;
	ck_no_err(open_store("/dev/null", false, &store));
	put_events(store);
	ck_no_err(store_finish(store));
	ck_assert_int_eq(store_status(store).state, STORE_OK);
	ck_assert_int_eq(store_reopen(store), -1);
	store_destroy(store);
	ck_assert_int_eq(access("/dev/null", F_OK), 0);
}

HT_TEST(without_room_nothing_is_created)
{
	struct store *store;
	HT_FREED char *directory = files_directory();
	HT_FREED char *path = files_path(directory, "trace");
	struct store_options options = {.path = path, .reserve_bytes = UINT64_MAX - 1};
	ck_err_says(store_create(&options, &store), HT_ERR_USAGE, "make room");
	ck_assert_uint_eq(files_count(directory), 0);
}

HT_TEST(without_a_record_nothing_stays)
{
	struct store *store;
	HT_FREED char *directory = files_directory();
	HT_FREED char *path = files_path(directory, "trace");
	ck_no_err(open_store(path, false, &store));
	store_destroy(store);
	ck_assert_uint_eq(files_count(directory), 0);
	files_write(path, "precious");
	ck_no_err(open_store(path, true, &store));
	store_destroy(store);
	files_check(path, "precious");
	ck_assert_uint_eq(files_count(directory), 1);
}

/* --- replacing --- */

/* Opens a store that will replace a file which all users may write, and has a block on disk. */
static struct store *store_replacing(const char *path)
{
	struct store *store;
	files_write(path, "precious");
	ck_assert_int_eq(chmod(path, 0666), 0);
	ck_no_err(open_store(path, true, &store));
	put_mark(store);
	ck_no_err(store_flush(store));
	return store;
}

HT_TEST(a_file_is_replaced_when_the_trace_is_finished)
{
	struct stat st;
	HT_FREED char *directory = files_directory();
	HT_FREED char *path = files_path(directory, "trace");
	struct store *store = store_replacing(path);
	files_check(path, "precious");
	ck_assert_uint_eq(files_count(directory), 2);
	ck_no_err(store_finish(store));
	ck_assert_int_eq(read_trace_at(path).end, TRACE_COMPLETE);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0600);
	store_destroy(store);
	ck_assert_uint_eq(files_count(directory), 1);
}

HT_TEST(an_abandoned_trace_replaces_too)
{
	HT_FREED char *directory = files_directory();
	HT_FREED char *path = files_path(directory, "trace");
	struct store *store = store_replacing(path);
	store_destroy(store);
	struct content content = read_trace_at(path);
	ck_assert_int_eq(content.end, TRACE_TRUNCATED);
	ck_assert_uint_eq(content.records, 1);
	ck_assert_uint_eq(files_count(directory), 1);
}

HT_TEST(a_trace_that_cannot_take_its_place_stays_beside_it)
{
	struct store *store;
	HT_FREED char *directory = files_directory();
	HT_FREED char *path = files_path(directory, "trace");
	ck_no_err(open_store(path, true, &store));
	put_mark(store);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	ck_no_err(store_finish(store));
	ck_assert_int_eq(store_status(store).state, STORE_BROKEN);
	ck_assert_ptr_nonnull(strstr(store_status(store).problem, "trace.part-"));
	store_destroy(store);
	ck_assert_uint_eq(files_count(directory), 2);
}

HT_TEST(a_trace_that_was_removed_is_missed)
{
	struct store *store;
	HT_FREED char *directory = files_directory();
	HT_FREED char *path = files_path(directory, "trace");
	ck_no_err(open_store(path, false, &store));
	put_mark(store);
	ck_assert_int_eq(unlink(path), 0);
	ck_no_err(store_finish(store));
	ck_assert_int_eq(store_status(store).state, STORE_BROKEN);
	ck_assert_ptr_nonnull(
		strstr(store_status(store).problem, "was removed while it was written"));
	store_destroy(store);
}

/* --- when blocks leave --- */

HT_TEST(a_block_leaves_after_a_second)
{
	struct store *store;
	struct timespec now;
	HT_FREED char *path = tmpdir_path("trace");
	clock_gettime(CLOCK_MONOTONIC, &now);
	uint64_t before_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	ck_no_err(open_store(path, false, &store));
	uint64_t empty = store_status(store).bytes;
	ck_no_err(store_tick(store, UINT64_MAX));
	ck_assert_uint_eq(store_status(store).bytes, empty);
	put_mark(store);
	ck_no_err(store_tick(store, before_ns + 999999999u));
	ck_assert_uint_eq(store_status(store).bytes, empty);
	clock_gettime(CLOCK_MONOTONIC, &now);
	uint64_t after_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	ck_no_err(store_tick(store, after_ns + 1000000000u));
	ck_assert_uint_gt(store_status(store).bytes, empty);
	ck_assert_uint_eq(read_trace(store_reopen(store)).records, 1);
	store_destroy(store);
}

HT_TEST(a_full_block_leaves_by_itself)
{
	struct store *store;
	HT_FREED char *path = tmpdir_path("trace");
	ck_no_err(open_store(path, false, &store));
	for (unsigned int i = 0; i < 3 * TRACE_BLOCK_BYTES / BODY_BYTES; i++)
		put_events(store);
	ck_assert_uint_gt(store_status(store).bytes, TRACE_BLOCK_BYTES);
	store_destroy(store);
}

/* --- a full or broken output --- */

/* Checks that the events in the trace and the dropped ones are together those of `bodies` records.
 */
static void check_dropped(const struct store *store, const char *path, uint64_t bodies)
{
	struct content content = read_trace_at(path);
	ck_assert_uint_gt(content.events, 0);
	ck_assert_uint_gt(store_status(store).dropped_events, 0);
	ck_assert_uint_eq(
		content.events + store_status(store).dropped_events, bodies * EVENTS_IN_BODY);
}

HT_TEST(a_file_size_limit_loses_only_what_is_counted)
{
	struct store *store;
	HT_FREED char *path = tmpdir_path("trace");
	signal(SIGXFSZ, SIG_IGN);
	const struct rlimit limit = {1000000, RLIM_INFINITY}, none = {RLIM_INFINITY, RLIM_INFINITY};
	ck_no_err(open_store(path, false, &store));
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	for (unsigned int i = 0; i < 40; i++)
		put_events(store);
	ck_assert_int_eq(store_status(store).state, STORE_FULL);
	ck_assert_ptr_nonnull(strstr(store_status(store).problem, "File too large"));
	put_end(store);
	ck_no_err(store_finish(store));
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &none), 0);
	check_dropped(store, path, 40);
	ck_assert_int_eq(read_trace_at(path).end, TRACE_TRUNCATED);
	store_destroy(store);
}

HT_TEST(failed_write_may_succeed_later)
{
	struct store *store;
	HT_FREED char *path = tmpdir_path("trace");
	signal(SIGXFSZ, SIG_IGN);
	const struct rlimit limit = {1000000, RLIM_INFINITY}, none = {RLIM_INFINITY, RLIM_INFINITY};
	ck_no_err(open_store(path, false, &store));
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	for (unsigned int i = 0; i < 40; i++)
		put_events(store);
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &none), 0);
	put_end(store);
	ck_no_err(store_finish(store));
	check_dropped(store, path, 40);
	struct content content = read_trace_at(path);
	ck_assert_int_eq(content.end, TRACE_COMPLETE);
	ck_assert(content.has_end);
	store_destroy(store);
}

HT_TEST(the_reserve_stays_free_and_takes_the_end)
{
	struct store *store;
	HT_FREED char *directory = files_directory();
	HT_FREED char *path = files_path(directory, "trace");
	if (mounts_small(directory, "size=4m")) {
		struct store_options options = {.path = path, .reserve_bytes = 2 << 20};
		ck_no_err(store_create(&options, &store));
		for (unsigned int i = 0; i < 60; i++)
			put_events(store);
		ck_assert_int_eq(store_status(store).state, STORE_FULL);
		ck_assert_uint_lt(store_status(store).bytes, 3 << 20);
		put_end(store);
		ck_no_err(store_finish(store));
		check_dropped(store, path, 60);
		struct content content = read_trace_at(path);
		ck_assert_int_eq(content.end, TRACE_COMPLETE);
		ck_assert(content.has_end);
		store_destroy(store);
	} else
		printf("skipped: the reserve of a full disk: no mount namespace here\n");
}

HT_TEST(a_full_disk_keeps_whole_blocks)
{
	struct store *store;
	HT_FREED char *directory = files_directory();
	HT_FREED char *path = files_path(directory, "trace");
	if (mounts_small(directory, "size=2m")) {
		ck_no_err(open_store(path, false, &store));
		for (unsigned int i = 0; i < 60; i++)
			put_events(store);
		ck_assert_int_eq(store_status(store).state, STORE_FULL);
		ck_no_err(store_finish(store));
		check_dropped(store, path, 60);
		store_destroy(store);
	} else
		printf("skipped: a full disk: no mount namespace here\n");
}

/* --- standard output --- */

/* Makes `fd` standard output and opens a store on it. */
static struct store *store_on(int fd)
{
	struct store *store;
	if (fd != STDOUT_FILENO) {
		ck_assert_int_eq(dup2(fd, STDOUT_FILENO), STDOUT_FILENO);
		close(fd);
	}
	ck_no_err(open_store("-", false, &store));
	close(STDOUT_FILENO);
	return store;
}

/* A thread that copies from one descriptor to another until the first ends. */
struct copying {
	pthread_t thread;
	int from, to;
};

static void *copy_run(void *context)
{
	const struct copying *copying = context;
	char data[4096];
	ssize_t got;
	while ((got = read(copying->from, data, sizeof(data))) > 0)
		ck_assert_int_eq(write(copying->to, data, (size_t)got), got);
	return NULL;
}

static void check_copied(int from, int to)
{
	HT_FREED char *path = tmpdir_path("copy");
	struct copying copying = {
		.from = from, .to = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)};
	struct store *store = store_on(to);
	ck_assert_int_eq(pthread_create(&copying.thread, NULL, copy_run, &copying), 0);
	for (unsigned int i = 0; i < 40; i++)
		put_events(store);
	ck_no_err(store_finish(store));
	ck_assert_int_eq(store_status(store).state, STORE_OK);
	store_destroy(store);
	ck_assert_int_eq(pthread_join(copying.thread, NULL), 0);
	close(copying.to);
	struct content content = read_trace_at(path);
	ck_assert_int_eq(content.end, TRACE_COMPLETE);
	ck_assert_uint_eq(content.events, 40 * EVENTS_IN_BODY);
}

HT_TEST(a_pipe_gets_all_of_it)
{
	int pair[2];
	ck_assert_int_eq(pipe2(pair, O_CLOEXEC), 0);
	check_copied(pair[0], pair[1]);
	close(pair[0]);
}

HT_TEST(a_socket_gets_all_of_it)
{
	int pair[2];
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	check_copied(pair[0], pair[1]);
	close(pair[0]);
}

HT_TEST(a_redirected_file_is_not_touched_but_for_writing)
{
	HT_FREED char *path = tmpdir_path("redirected");
	files_write(path, "");
	struct store *store = store_on(open(path, O_WRONLY | O_CLOEXEC));
	put_mark(store);
	ck_no_err(store_finish(store));
	store_destroy(store);
	ck_assert_int_eq(read_trace_at(path).end, TRACE_COMPLETE);
	store = store_on(open(path, O_WRONLY | O_TRUNC | O_CLOEXEC));
	store_destroy(store);
	ck_assert_int_eq(access(path, F_OK), 0);
}

HT_TEST(a_closed_pipe_breaks_the_store)
{
	int pair[2];
	signal(SIGPIPE, SIG_IGN);
	ck_assert_int_eq(pipe2(pair, O_CLOEXEC), 0);
	struct store *store = store_on(pair[1]);
	put_events(store);
	close(pair[0]);
	ck_no_err(store_flush(store));
	ck_assert_int_eq(store_status(store).state, STORE_BROKEN);
	ck_assert_ptr_nonnull(strstr(store_status(store).problem, "Broken pipe"));
	put_events(store);
	ck_assert_uint_eq(store_status(store).dropped_events, 2 * EVENTS_IN_BODY);
	ck_no_err(store_finish(store));
	store_destroy(store);
}

HT_TEST(pipe_without_a_reader_breaks_the_store)
{
	int pair[2];
	ck_assert_int_eq(pipe2(pair, O_CLOEXEC), 0);
	struct store *store = store_on(pair[1]);
	for (unsigned int i = 0; i < 3; i++)
		put_events(store);
	ck_no_err(store_flush(store));
	ck_assert_int_eq(store_status(store).state, STORE_BROKEN);
	ck_assert_uint_eq(store_status(store).dropped_events, 3 * EVENTS_IN_BODY);
	store_destroy(store);
	close(pair[0]);
}

HT_TEST(a_closed_standard_output_is_refused)
{
	struct store *store;
	close(STDOUT_FILENO);
	ck_err_says(open_store("-", false, &store), HT_ERR_USAGE, "closed");
}

HT_SUITE("attach/daemon/store")
