/* SPDX-License-Identifier: Apache-2.0
 *
 * --cull: the trace has only sums of short-lived blocks, and the report is the same as that of the
 * whole trace. With 1 h as the limit, every block that is freed is short-lived.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format/reader.h"
#include "tests/support/books.h"
#include "tests/support/child.h"
#include "tests/support/ht_check.h"
#include "tests/support/report.h"
#include "tests/support/run.h"
#include "tests/support/steer.h"
#include "tests/support/tap.h"
#include "tests/support/tmpdir.h"
#include "tests/support/tracefile.h"
#include "tests/support/victim.h"

#define LIMIT_MS 60000

static struct victim victim;
static struct tap tap;

static void begin(const char *const argv[], const char *const extra[])
{
	victim_start(&victim, argv);
	tap_start(&tap, victim.pid, extra);
	tap_wait_on(&tap, strrchr(argv[0], '/'));
}

static bool is_heap_read(void)
{
	struct trace_reader *reader;
	static struct rec rec;
	enum trace_end end = TRACE_MORE;
	bool ret = false;
	int fd = open(tap.trace, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ck_no_err(trace_reader_create(fd, tap.trace, &reader));
	while (!ret && end == TRACE_MORE) {
		ck_no_err(trace_reader_next(reader, &rec, &end));
		ret = end == TRACE_MORE && rec.kind == REC_HEAP;
	}
	trace_reader_destroy(reader);
	close(fd);
	return ret;
}

/* Waits until the daemon has read the heap, because blocks that are live during that are never
 * culled. */
static void begin_stepwise(const char *const extra[])
{
	begin((const char *[]){run_built("tests/targets/stepwise"), NULL}, extra);
	run_until(is_heap_read(), LIMIT_MS);
}

static void work(const char *command)
{
	free(victim_ask(&victim, command, LIMIT_MS));
}

/* 1000 blocks stay, 2000 are freed; half of the latter are reallocated before. */
static void work_as_known(void)
{
	work("alloc 0 1000 104");
	work("alloc 1000 3000 208");
	work("realloc 1000 2000 312");
	work("free 1000 3000");
}

static void check_known(const char *trace)
{
	json_t *report = report_load(trace);
	ck_assert_uint_eq(report_u64(report, "totals.allocations"), 4000);
	ck_assert_uint_eq(report_u64(report, "totals.frees"), 3000);
	ck_assert_uint_eq(report_u64(report, "totals.outstanding_blocks"), 1000);
	ck_assert_uint_eq(report_u64(report, "totals.outstanding_bytes"), 1000 * 104);
	ck_assert_uint_eq(report_u64(report, "capture.dropped_events"), 0);
	json_decref(report);
	ck_assert_uint_eq(tracefile_blocks_of(trace, 104), 1000);
	ck_assert_uint_eq(tracefile_blocks_of(trace, 208), 0);
	ck_assert_uint_eq(tracefile_blocks_of(trace, 312), 0);
}

HT_TEST(short_lives_are_sums)
{
	begin_stepwise((const char *[]){"--cull", "1h", NULL});
	work_as_known();
	json_t *attach = tap_stop(&tap, 0);
	tap_check_clean(attach);
	ck_assert_uint_eq(report_u64(attach, "cull_ns"), 3600000000000);
	json_decref(attach);
	check_known(tap.trace);
	victim_stop(&victim);
}

static void compare_books(const char *const argv[], const char *time)
{
	begin(argv, (const char *[]){"--cull", time, NULL});
	HT_FREED char *books = victim_ask(&victim, "go", LIMIT_MS);
	json_t *attach = tap_stop(&tap, 0);
	tap_check_clean(attach);
	json_decref(attach);
	victim_stop(&victim);
	json_auto_t *ledger = report_parse(books);
	books_check_report(tap.trace, ledger, false);
}

HT_TEST(sums_of_a_thread_are_exact)
{
	compare_books(
		(const char *[]){run_built("tests/targets/ledger"), "-n", "300000", NULL}, "50ms");
}

HT_TEST(sums_of_many_threads_are_exact)
{
	compare_books((const char *[]){run_built("tests/targets/ledger"), "-t", "8", NULL}, "1h");
}

HT_TEST(sums_of_linked_jemalloc_are_exact)
{
	compare_books(
		(const char *[]){run_built("tests/targets/ledger-jemalloc"), "-l", "-t", "4", NULL},
		"100ms");
}

static bool filter_has_blocks(void)
{
	return steer_figure(victim.pid, "cull_live_blocks") == 1000;
}

HT_TEST(status_says_what_the_filter_holds)
{
	char *out;
	begin_stepwise((const char *[]){"--cull", "1h", NULL});
	work_as_known();
	run_until(filter_has_blocks(), LIMIT_MS);
	ck_assert_uint_ge(steer_figure(victim.pid, "cull_bytes"), 1000 * 51);
	ck_assert_int_eq(steer("status", victim.pid, NULL, &out, NULL), 0);
	ck_assert_msg(strstr(out, "less than 1 h are sums; 1000 live"), "%s", out);
	free(out);
	json_decref(tap_stop(&tap, 0));
	victim_stop(&victim);
}

/* The blocks that the filter held when heaptap was killed reach the trace. */
HT_TEST(heaptap_is_killed)
{
	begin_stepwise((const char *[]){"--cull", "1h", NULL});
	work_as_known();
	run_until(filter_has_blocks(), LIMIT_MS);
	ck_assert_int_eq(kill(tap.run.pid, SIGKILL), 0);
	tap_verify_soon(&tap, LIMIT_MS);
	victim_prove_alive(&victim);
	victim_stop(&victim);
	struct tracefile file;
	uint64_t blocks = 0;
	for (unsigned i = 0; i < 100 && blocks < 1000; i++) {
		usleep(100000);
		tracefile_load(tap.trace, &file);
		blocks = 0;
		for (size_t j = 0; j < file.event_count; j++)
			blocks += file.event[j].size == 104;
		tracefile_deinit(&file);
	}
	ck_assert_uint_eq(blocks, 1000);
}

/* The kernel may kill the filter process for lack of memory. heaptap then detaches, and the trace
 * is incomplete. */
HT_TEST(the_filter_is_killed)
{
	begin_stepwise((const char *[]){"--cull", "1h", NULL});
	work_as_known();
	run_until(filter_has_blocks(), LIMIT_MS);
	const pid_t filter = child_named(tap.run.pid, "heaptap-filter");
	ck_assert_int_gt(filter, 0);
	ck_assert_int_eq(kill(filter, SIGKILL), 0);
	work("alloc 4000 5000 416");
	json_t *attach = tap_wait(&tap, 7);
	tap_check_equal(attach);
	ck_assert_uint_gt(report_u64(attach, "dropped_events"), 0);
	ck_assert_str_eq(report_text(attach, "ended"), "error");
	json_decref(attach);
	victim_stop(&victim);
}

HT_TEST(a_snapshot_has_what_is_outstanding)
{
	HT_FREED char *path = tmpdir_path("snapshot");
	begin_stepwise((const char *[]){"--cull", "100ms", NULL});
	work_as_known();
	char pid[16];
	snprintf(pid, sizeof(pid), "%d", victim.pid);
	char *err;
	int status = run_program(
		(const char *[]){run_built("heaptap"), "snapshot", "-p", pid, "-o", path, NULL},
		LIMIT_MS, NULL, &err);
	ck_assert_msg(status == 0, "%d: %s", status, err);
	ck_assert_msg(strstr(err, "its trace is 100 ms late"), "%s", err);
	free(err);
	json_t *report = report_load(path);
	ck_assert_uint_eq(report_u64(report, "totals.outstanding_blocks"), 1000);
	ck_assert_uint_eq(report_u64(report, "totals.allocations"), 4000);
	json_decref(report);
	json_decref(tap_stop(&tap, 0));
	victim_stop(&victim);
}

HT_SUITE("integration/cull")