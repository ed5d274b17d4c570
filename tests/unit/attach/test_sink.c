/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/daemon/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "format/reader.h"
#include "tests/support/child.h"
#include "tests/support/ctlgroup.h"
#include "tests/support/deny.h"
#include "tests/support/files.h"
#include "tests/support/ht_check.h"
#include "tests/support/run.h"
#include "tests/support/tmpdir.h"

#define NO_RESERVE	    1u /* bytes that stay free on the disk; 0 would be the default */
#define PATIENCE_NS	    200000000u
#define STOPPED_PATIENCE_NS 2000000000u
#define STOPPED_US	    2500000u
#define WITHIN_US	    100000u
#define BODY_BYTES	    60000u
#define EVENTS_IN_BODY	    1000u
#define WAIT_MS		    30000u

static void put_events(struct sink *sink)
{
	static uint64_t body[BODY_BYTES / 8];
	static uint64_t word = 1;
	for (size_t i = 0; i < HT_ARRAY_SIZE(body); i++)
		body[i] = word = word * 6364136223846793005u + 1442695040888963407u;
	struct rec rec = {.kind = REC_EVENTS, .events.body = bytes_of(body, sizeof(body))};
	ck_no_err(sink_put(sink, &rec, EVENTS_IN_BODY));
}

/* Puts until the queue, the pipe to the scribe and the output take no more. */
static unsigned int put_until_full(struct sink *sink)
{
	unsigned int count = 0;
	for (uint64_t end_ms = run_now_ms() + WAIT_MS; run_now_ms() < end_ms; count++) {
		if (!sink_has_room(sink))
			break;
		put_events(sink);
	}
	ck_assert(!sink_has_room(sink));
	return count;
}

static bool is_cancelled(void *context)
{
	return *(const bool *)context;
}

static bool cancelled;

static struct sink *sink_at(const char *path, uint64_t patience_ns)
{
	struct sink *sink;
	struct sink_options options = {.path = path,
		.reserve_bytes = NO_RESERVE,
		.is_cancelled = is_cancelled,
		.context = &cancelled,
		.patience_ns = patience_ns};
	signal(SIGPIPE, SIG_IGN);
	ck_no_err(sink_create(&options, &sink));
	return sink;
}

static struct sink *sink_on_pipe(int *ret_read_fd, uint64_t patience_ns)
{
	int pair[2];
	ck_assert_int_eq(pipe2(pair, O_CLOEXEC), 0);
	ck_assert_int_eq(dup2(pair[1], STDOUT_FILENO), STDOUT_FILENO);
	close(pair[1]);
	*ret_read_fd = pair[0];
	struct sink *sink = sink_at("-", patience_ns);
	close(STDOUT_FILENO);
	return sink;
}

static uint64_t read_events(const char *path, enum trace_end *ret)
{
	struct trace_reader *reader;
	static struct rec rec;
	uint64_t events = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ck_no_err(trace_reader_create(fd, "trace", &reader));
	do {
		ck_no_err(trace_reader_next(reader, &rec, ret));
		events += *ret == TRACE_MORE && rec.kind == REC_EVENTS ? EVENTS_IN_BODY : 0;
	} while (*ret == TRACE_MORE);
	trace_reader_destroy(reader);
	close(fd);
	return events;
}

HT_TEST(all_that_is_put_is_written)
{
	enum trace_end end;
	HT_FREED char *path = tmpdir_path("trace");
	struct sink *sink = sink_at(path, 0);
	for (unsigned int i = 0; i < 100; i++)
		put_events(sink);
	sink_finish(sink, false);
	ck_assert_int_eq(sink_state(sink), STORE_OK);
	ck_assert_uint_eq(sink_dropped_events(sink), 0);
	ck_assert_uint_gt(sink_bytes(sink), 100 * BODY_BYTES / 2);
	sink_destroy(sink);
	ck_assert_uint_eq(read_events(path, &end), 100 * EVENTS_IN_BODY);
	ck_assert_int_eq(end, TRACE_COMPLETE);
}

HT_TEST(why_it_cannot_be_opened_comes_back)
{
	struct sink *sink;
	HT_FREED char *directory = files_directory();
	HT_FREED char *path = files_path(directory, "trace");
	struct sink_options options = {.path = path};
	files_write(path, "precious");
	ck_err_says(sink_create(&options, &sink), HT_ERR_USAGE, "replace it with -f");
	files_check(path, "precious");
	ck_assert_uint_eq(files_count(directory), 1);
}

HT_TEST(without_a_record_nothing_stays)
{
	HT_FREED char *directory = files_directory();
	HT_FREED char *path = files_path(directory, "trace");
	sink_destroy(sink_at(path, 0));
	ck_assert_uint_eq(files_count(directory), 0);
}

static struct ht_err *append_mark(
	struct store *store, void *context, char *problem, size_t problem_bytes)
{
	struct rec rec = {.kind = REC_EVENTS, .events.body = bytes_of(context, 4)};
	snprintf(problem, problem_bytes, "no more than that");
	return store_put(store, &rec, EVENTS_IN_BODY);
}

HT_TEST(discarded_trace_leaves_no_file)
{
	HT_FREED char *path = tmpdir_path("trace");
	struct sink *sink = sink_at(path, 0);
	for (unsigned int i = 0; i < 100; i++)
		put_events(sink);
	sink_flush(sink);
	ck_assert_int_eq(access(path, F_OK), 0);
	sink_discard(sink);
	ck_assert_int_ne(access(path, F_OK), 0);
	sink_destroy(sink);
}

HT_TEST(appended_records_follow_the_rest)
{
	struct sink *sink;
	enum trace_end end;
	char text[] = "here";
	HT_FREED char *path = tmpdir_path("trace");
	ck_no_err(sink_create(
		&(struct sink_options){.path = path, .append = append_mark, .context = text},
		&sink));
	put_events(sink);
	sink_finish(sink, true);
	ck_assert_str_eq(sink_append_problem(sink), "no more than that");
	sink_destroy(sink);
	ck_assert_uint_eq(read_events(path, &end), 2 * EVENTS_IN_BODY);
}

/* Appends nothing, and waits until the test has written a byte. */
static struct ht_err *append_when_told(
	struct store *store, void *context, char *problem, size_t problem_bytes)
{
	char byte = 0;
	(void)store;
	(void)context;
	(void)problem_bytes;
	problem[0] = '\0';
	return read(SCRIBE_KEPT_FD, &byte, 1) == 1 ? NULL : ht_err_sys(errno, "nothing came");
}

static void tell(void *context)
{
	const int *fd = context;
	ck_assert_int_eq(write(*fd, "x", 1), 1);
}

HT_TEST(other_work_is_done_while_something_is_appended)
{
	int pair[2];
	struct sink *sink;
	HT_FREED char *path = tmpdir_path("trace");
	ck_assert_int_eq(pipe2(pair, O_CLOEXEC), 0);
	ck_no_err(sink_create(&(struct sink_options){.path = path,
				      .append = append_when_told,
				      .append_fd = pair[0],
				      .meanwhile = tell,
				      .context = &pair[1]},
		&sink));
	put_events(sink);
	sink_finish(sink, true);
	ck_assert_str_eq(sink_append_problem(sink), "");
	ck_assert_int_eq(sink_state(sink), STORE_OK);
	sink_destroy(sink);
	close(pair[0]);
	close(pair[1]);
}

static struct ht_err *append_nothing(
	struct store *store, void *context, char *problem, size_t problem_bytes)
{
	(void)store;
	(void)context;
	(void)problem;
	(void)problem_bytes;
	return ht_err_new(HT_ERR_NOMEM, "no memory for a name");
}

HT_TEST(reports_an_error_of_the_scribe)
{
	struct sink *sink;
	enum trace_end end;
	HT_FREED char *path = tmpdir_path("trace");
	ck_no_err(
		sink_create(&(struct sink_options){.path = path, .append = append_nothing}, &sink));
	put_events(sink);
	sink_finish(sink, true);
	ck_assert_int_eq(sink_state(sink), STORE_BROKEN);
	ck_assert_ptr_nonnull(strstr(sink_problem(sink), "no memory for a name"));
	sink_destroy(sink);
	(void)read_events(path, &end);
	ck_assert_int_eq(end, TRACE_TRUNCATED);
}

HT_TEST(counts_records_dropped_without_memory)
{
	HT_FREED char *path = tmpdir_path("trace");
	struct sink *sink = sink_at(path, 0);
	/* Volatile: the compiler warns of a constant that is too large. */
	volatile size_t too_many = SIZE_MAX / 2;
	struct rec rec = {.kind = REC_EVENTS, .events.body = bytes_of("events", too_many)};
	put_events(sink);
	ck_err_says(sink_put(sink, &rec, 7), HT_ERR_NOMEM, "no memory");
	sink_drop(sink, 5);
	put_events(sink);
	sink_finish(sink, false);
	ck_assert_int_eq(sink_state(sink), STORE_OK);
	ck_assert_uint_eq(sink_dropped_events(sink), 12);
	sink_destroy(sink);
}

/* Returns the PID of the scribe, which is the only child of this process. */
static pid_t scribe_pid(void)
{
	int pid = -1;
	FILE *children = fopen("/proc/thread-self/children", "re");
	ck_assert_ptr_nonnull(children);
	ck_assert_int_eq(fscanf(children, "%d", &pid), 1);
	fclose(children);
	return pid;
}

HT_TEST(buffered_output_is_bounded)
{
	int read_fd;
	struct sink *sink = sink_on_pipe(&read_fd, PATIENCE_NS);
	unsigned int count = put_until_full(sink);
	ck_assert_uint_le(count * BODY_BYTES, 5 * SINK_QUEUE_BYTES);
	ck_assert_int_ge(sink_fd(sink), 0);
	/* A running scribe would give the pipe up after 5 s; a busy machine may need longer to fill
	 * the queue. */
	ck_assert_int_eq(kill(scribe_pid(), SIGSTOP), 0);
	sink_take_all(sink);
	for (uint64_t i = 0; i < SINK_QUEUE_MAX_BYTES / (BODY_BYTES + 1000) - 20; i++, count++) {
		ck_assert(sink_has_room(sink));
		ck_assert_int_eq(sink_state(sink), STORE_OK);
		put_events(sink);
	}
	for (unsigned int i = 0; i < 200; i++, count++)
		put_events(sink);
	ck_assert_int_eq(sink_state(sink), STORE_BROKEN);
	ck_assert_ptr_nonnull(strstr(sink_problem(sink), "too slowly"));
	ck_assert_uint_eq(sink_dropped_events(sink), (uint64_t)count * EVENTS_IN_BODY);
	sink_destroy(sink);
	close(read_fd);
}

HT_TEST(an_output_that_takes_nothing_is_given_up)
{
	int read_fd;
	struct sink *sink = sink_on_pipe(&read_fd, PATIENCE_NS);
	unsigned int count = put_until_full(sink);
	sink_finish(sink, false);
	ck_assert_int_eq(sink_state(sink), STORE_BROKEN);
	ck_assert_ptr_nonnull(strstr(sink_problem(sink), "accepted nothing for"));
	ck_assert_ptr_nonnull(strstr(sink_problem(sink), "bytes of records were not written"));
	ck_assert_uint_eq(sink_dropped_events(sink), (uint64_t)count * EVENTS_IN_BODY);
	put_events(sink);
	ck_assert_uint_eq(sink_dropped_events(sink), (uint64_t)(count + 1) * EVENTS_IN_BODY);
	ck_assert(sink_has_room(sink));
	sink_destroy(sink);
	close(read_fd);
}

/* Reads a page every 50 ms: the pipe never stands still for long, and is never empty. */
static void read_slowly(const void *arg)
{
	char page[4096];
	child_ready(0);
	while (read(*(const int *)arg, page, sizeof(page)) > 0)
		poll(NULL, 0, 50);
	child_wait();
}

HT_TEST(a_slow_reader_is_waited_for_until_cancelled)
{
	int read_fd;
	struct sink *sink = sink_on_pipe(&read_fd, 0);
	put_until_full(sink);
	struct child reader = child_fork(read_slowly, &read_fd);
	cancelled = true;
	sink_flush(sink);
	ck_assert_int_eq(sink_state(sink), STORE_BROKEN);
	ck_assert_ptr_nonnull(strstr(sink_problem(sink), "interrupted before"));
	ck_assert_ptr_nonnull(strstr(sink_problem(sink), "bytes of records were not written"));
	ck_assert_uint_gt(sink_dropped_events(sink), 0);
	sink_destroy(sink);
	child_kill(&reader);
	close(read_fd);
}

/* A thousandth of a processor: the group uses up its share of a second at once. */
static const struct ctlgroup_kind cpu_kinds[] = {
	{"/sys/fs/cgroup/cpu", "cpu.cfs_period_us", "1000000"},
	{"/sys/fs/cgroup", "cpu.max", "1000 1000000"}};

HT_TEST(a_scribe_without_a_processor_is_waited_for)
{
	struct ctlgroup group;
	char *path = tmpdir_path("trace");
	if (!ctlgroup_make(&group, cpu_kinds, HT_ARRAY_SIZE(cpu_kinds)))
		return;
	ck_assert(group.kind == 1 || ctlgroup_set(&group, "cpu.cfs_quota_us", "1000"));
	struct sink *sink = sink_at(path, PATIENCE_NS);
	ctlgroup_move(&group, scribe_pid());
	for (unsigned int i = 0; i < 20; i++)
		put_events(sink);
	sink_finish(sink, false);
	ck_assert_msg(sink_state(sink) == STORE_OK, "%s", sink_problem(sink));
	ck_assert_uint_eq(sink_dropped_events(sink), 0);
	sink_destroy(sink);
	ctlgroup_remove(&group);
	free(path);
}

HT_TEST(a_scribe_that_was_stopped_is_continued)
{
	HT_FREED char *path = tmpdir_path("trace");
	struct sink *sink = sink_at(path, PATIENCE_NS);
	ck_assert_int_eq(kill(scribe_pid(), SIGSTOP), 0);
	for (unsigned int i = 0; i < 20; i++)
		put_events(sink);
	sink_finish(sink, false);
	ck_assert_msg(sink_state(sink) == STORE_OK, "%s", sink_problem(sink));
	ck_assert_uint_eq(sink_dropped_events(sink), 0);
	sink_destroy(sink);
}

static void finish_into(const void *arg)
{
	const int *pair = arg;
	close(pair[0]);
	dup2(pair[1], STDOUT_FILENO);
	close(pair[1]);
	struct sink *sink = sink_at("-", STOPPED_PATIENCE_NS);
	close(STDOUT_FILENO);
	put_until_full(sink);
	child_ready(0);
	sink_finish(sink, false);
	_exit(sink_state(sink) != STORE_OK);
}

/* While heaptap is stopped, the output may take data: that time does not count. */
HT_TEST(who_was_stopped_waits_again)
{
	int pair[2], status;
	char page[4096];
	ck_assert_int_eq(pipe2(pair, O_CLOEXEC), 0);
	struct child child = child_fork(finish_into, pair);
	close(pair[1]);
	usleep(WITHIN_US);
	kill(child.pid, SIGSTOP);
	usleep(STOPPED_US);
	kill(child.pid, SIGCONT);
	usleep(WITHIN_US);
	while (read(pair[0], page, sizeof(page)) > 0)
		;
	ck_assert_int_eq(waitpid(child.pid, &status, 0), child.pid);
	ck_assert_int_eq(status, 0);
	close(pair[0]);
}

HT_TEST(a_scribe_that_dies_loses_only_what_is_counted)
{
	enum trace_end end;
	HT_FREED char *path = tmpdir_path("trace");
	struct sink *sink = sink_at(path, 0);
	for (unsigned int i = 0; i < 20; i++)
		put_events(sink);
	sink_flush(sink);
	kill(scribe_pid(), SIGKILL);
	for (unsigned int i = 0; i < 20; i++)
		put_events(sink);
	sink_finish(sink, false);
	ck_assert_int_eq(sink_state(sink), STORE_BROKEN);
	ck_assert_ptr_nonnull(strstr(sink_problem(sink), "was ended"));
	ck_assert_uint_ge(sink_dropped_events(sink), 20 * EVENTS_IN_BODY);
	uint64_t dropped = sink_dropped_events(sink);
	sink_destroy(sink);
	ck_assert_uint_eq(read_events(path, &end) + dropped, 40 * EVENTS_IN_BODY);
}

/* Makes close_range fail with `sys`, as kernels and containers do that do not know the call. */
static void forbid_close_range(int sys)
{
	deny_calls(SYS_close_range, sys);
	ck_assert_int_eq(close_range(~0U, ~0U, 0), -1);
	ck_assert_int_eq(errno, sys);
}

/* The scribe may live on, so it must not hold the lock, the target's memory, or the other end of
 * its own pipe. */
static void check_nothing_is_held(void)
{
	char link[64], target[256];
	HT_FREED char *path = tmpdir_path("trace");
	int first = memfd_create("precious", MFD_CLOEXEC), second = dup2(first, 200);
	ck_assert_int_eq(second, 200);
	struct sink *sink = sink_at(path, 0);
	for (int fd = 0; fd <= second; fd++) {
		snprintf(link, sizeof(link), "/proc/%d/fd/%d", scribe_pid(), fd);
		ssize_t length = readlink(link, target, sizeof(target) - 1);
		target[length > 0 ? length : 0] = '\0';
		ck_assert_msg(!strstr(target, "precious"), "%d is %s", fd, target);
		ck_assert_msg(fd == 3 || !strstr(target, "pipe:"), "%d is %s", fd, target);
	}
	put_events(sink);
	sink_finish(sink, false);
	ck_assert_int_eq(sink_state(sink), STORE_OK);
	sink_destroy(sink);
	close(first);
	close(second);
}

HT_TEST(the_scribe_holds_nothing_of_ours)
{
	check_nothing_is_held();
}

HT_TEST(the_scribe_holds_nothing_on_an_old_kernel)
{
	forbid_close_range(ENOSYS);
	check_nothing_is_held();
}

HT_TEST(the_scribe_holds_nothing_in_an_old_container)
{
	forbid_close_range(EPERM);
	check_nothing_is_held();
}

HT_TEST(a_queue_that_would_block_is_refused)
{
	struct sink *sink;
	HT_FREED char *directory = files_directory();
	HT_FREED char *path = files_path(directory, "trace");
	deny_calls(SYS_fcntl, EPERM);
	ck_err_says(sink_create(&(struct sink_options){.path = path}, &sink), HT_ERR_SYS,
		"does not block");
	ck_assert_uint_eq(files_count(directory), 0);
}

HT_TEST(names_output_that_may_not_be_durable)
{
	struct sink *sink;
	HT_FREED char *path = tmpdir_path("trace");
	deny_calls(SYS_fsync, EIO);
	ck_no_err(sink_create(&(struct sink_options){.path = path, .replace = true}, &sink));
	put_events(sink);
	sink_finish(sink, false);
	ck_assert_int_eq(sink_state(sink), STORE_BROKEN);
	ck_assert_ptr_nonnull(strstr(sink_problem(sink), "trace.part-"));
	ck_assert_ptr_nonnull(strstr(sink_problem(sink), "may not be durable"));
	sink_destroy(sink);
}

static uint64_t events_in(const char *path)
{
	enum trace_end end;
	return access(path, R_OK) ? 0 : read_events(path, &end);
}

HT_TEST(queued_output_is_written_after_the_daemons_death)
{
	enum trace_end end;
	HT_FREED char *path = tmpdir_path("trace");
	pid_t daemon = fork();
	ck_assert_int_ge(daemon, 0);
	if (daemon == 0) {
		struct sink *sink = sink_at(path, 0);
		for (unsigned int i = 0; i < 20; i++)
			put_events(sink);
		while (sink_fd(sink) >= 0)
			sink_tick(sink);
		kill(getpid(), SIGKILL);
	}
	ck_assert_int_eq(waitpid(daemon, NULL, 0), daemon);
	run_until(events_in(path) == 20 * EVENTS_IN_BODY, WAIT_MS);
	(void)read_events(path, &end);
	ck_assert_int_eq(end, TRACE_TRUNCATED);
}

HT_SUITE("attach/daemon/sink")
