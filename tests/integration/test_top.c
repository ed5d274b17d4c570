/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap top: tables of a capture that top starts or joins, and that it leaves nothing.
 */
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/ht_check.h"
#include "tests/support/report.h"
#include "tests/support/tap.h"
#include "tests/support/victim.h"

#define TARGET_MS 60000
#define WORDS	  16u

/* A target that allocates. */
struct shown {
	struct victim victim;
	struct tap tap;
	struct run top;
	char digits[16];
};

static void start_target(struct shown *shown)
{
	victim_start(&shown->victim, (const char *[]){run_built("tests/targets/cxx"), NULL});
	shown->tap = (struct tap){.target = shown->victim.pid};
	snprintf(shown->digits, sizeof(shown->digits), "%d", shown->victim.pid);
}

static void start_top(struct shown *shown, const char *const words[])
{
	const char *argv[WORDS] = {run_built("heaptap"), "top", "-p", shown->digits};
	for (size_t i = 0; words && words[i]; i++)
		argv[i + 4] = words[i];
	run_start(&shown->top, argv);
}

/* The last complete line of JSON so far; NULL: there is none. */
static json_t *last_table(const struct run *top, size_t *ret_count)
{
	char *out = run_out(top), *end = strrchr(out, '\n'), *begin = out;
	json_t *ret = NULL;
	*ret_count = 0;
	for (char *at = out; end && at < end; at++)
		if (*at == '\n') {
			begin = at + 1;
			++*ret_count;
		}
	if (end) {
		*end = '\0';
		++*ret_count;
		ret = report_parse(begin);
	}
	free(out);
	return ret;
}

static bool has_tables(const struct run *top, size_t count)
{
	size_t there;
	json_decref(last_table(top, &there));
	return there >= count;
}

/* --- batch mode ------------------------------------------------------------------------------ */

static void check_table(const json_t *table, pid_t pid)
{
	const json_t *first = json_array_get(report_at(table, "rows"), 0);
	ck_assert_str_eq(report_text(table, "schema"), "heaptap.top/1");
	ck_assert_str_eq(report_text(table, "comm"), "cxx");
	ck_assert_uint_eq(report_u64(table, "pid"), (uint64_t)pid);
	ck_assert_uint_gt(report_u64(table, "allocations"), 0);
	ck_assert_uint_gt(report_u64(table, "calls_per_s"), 0);
	ck_assert_uint_gt(report_u64(table, "rss_bytes"), 0);
	ck_assert_uint_gt(strlen(report_text(first, "function")), 0);
	ck_assert_uint_gt(json_array_size(report_at(first, "stack")), 0);
}

/* Events reach the trace each second, so each interval of two seconds has some. */
HT_TEST(tables_of_a_capture_of_its_own)
{
	struct shown shown;
	size_t count;
	start_target(&shown);
	tap_look(&shown.tap, 0);
	start_top(&shown, (const char *[]){"-b", "-d", "2", "-n", "3", "--json", NULL});
	ck_assert_int_eq(run_wait(&shown.top, TARGET_MS), 0);
	json_t *table = last_table(&shown.top, &count);
	ck_assert_uint_eq(count, 3);
	check_table(table, shown.victim.pid);
	json_decref(table);
	tap_verify(&shown.tap);
	run_deinit(&shown.top);
	victim_stop(&shown.victim);
}

HT_TEST(tables_as_text)
{
	struct shown shown;
	start_target(&shown);
	tap_look(&shown.tap, 0);
	start_top(&shown, (const char *[]){"-b", "-d", "0.3", "-n", "1", "--rows", "2", NULL});
	ck_assert_int_eq(run_wait(&shown.top, TARGET_MS), 0);
	char *out = run_out(&shown.top);
	size_t lines = 0;
	for (const char *at = out; *at; at++)
		lines += *at == '\n';
	/* Three header lines, titles, two rows, and an empty line. */
	ck_assert_uint_eq(lines, 7);
	ck_assert_int_eq(strncmp(out, "heaptap top - cxx ", 18), 0);
	ck_assert_ptr_nonnull(strstr(out, "\n OUTSTAND   +/MIN ALLOC/S CALLS/S TEMP  AGE TREND"));
	free(out);
	tap_verify(&shown.tap);
	run_deinit(&shown.top);
	victim_stop(&shown.victim);
}

/* Does the last table count `allocations`, which means that all events have arrived? */
static bool agrees_with(struct shown *shown, uint64_t allocations)
{
	size_t count;
	json_auto_t *table = last_table(&shown->top, &count);
	const bool ret = table && report_u64(table, "allocations") == allocations;
	return ret;
}

/* When the target is idle, the sums equal those that the ledger counted. */
HT_TEST(a_capture_that_runs_is_joined_and_goes_on)
{
	struct shown shown;
	victim_start(&shown.victim,
		(const char *[]){run_built("tests/targets/ledger"), "-n", "3000", NULL});
	snprintf(shown.digits, sizeof(shown.digits), "%d", shown.victim.pid);
	tap_start(&shown.tap, shown.victim.pid, NULL);
	tap_wait_any(&shown.tap);
	char *said = victim_ask(&shown.victim, "go", TARGET_MS);
	json_t *books = report_parse(said);
	start_top(&shown, (const char *[]){"-b", "-d", "0.3", "--json", "--rows", "0", NULL});
	run_until(agrees_with(&shown, report_u64(books, "allocations")), TARGET_MS);
	kill(shown.top.pid, SIGINT);
	ck_assert_int_eq(run_wait(&shown.top, TARGET_MS), 0);
	ck_assert(tap_is_recording(shown.victim.pid));
	json_decref(tap_stop(&shown.tap, 0));
	json_decref(books);
	free(said);
	run_deinit(&shown.top);
	victim_stop(&shown.victim);
}

/* Has the first row of the last table a bound, and the process one that is no less? */
static bool has_bound(struct shown *shown)
{
	size_t count;
	json_auto_t *table = last_table(&shown->top, &count);
	json_t *rows = table ? report_at(table, "rows") : NULL;
	const json_t *bound = json_object_get(json_array_get(rows, 0), "outstanding_bytes_bound95");
	return json_is_integer(bound) && json_integer_value(bound) > 0 &&
	       report_u64(table, "outstanding_bytes_bound95") >=
		       (uint64_t)json_integer_value(bound);
}

/* All figures of a sample are estimates, and the largest site's has a bound. */
HT_TEST(estimates_of_a_sample_have_bounds)
{
	struct shown shown;
	victim_start(&shown.victim,
		(const char *[]){run_built("tests/targets/ledger"), "-n", "3000", NULL});
	snprintf(shown.digits, sizeof(shown.digits), "%d", shown.victim.pid);
	tap_start(&shown.tap, shown.victim.pid, (const char *[]){"--sample", "64K", NULL});
	tap_wait_any(&shown.tap);
	free(victim_ask(&shown.victim, "go", TARGET_MS));
	start_top(&shown, (const char *[]){"-b", "-d", "0.3", "--json", NULL});
	run_until(has_bound(&shown), TARGET_MS);
	kill(shown.top.pid, SIGINT);
	ck_assert_int_eq(run_wait(&shown.top, TARGET_MS), 0);
	run_deinit(&shown.top);
	start_top(&shown, (const char *[]){"-b", "-d", "0.3", "-n", "1", NULL});
	ck_assert_int_eq(run_wait(&shown.top, TARGET_MS), 0);
	char *out = run_out(&shown.top);
	ck_assert_msg(strstr(out, "\n OUTSTAND   BOUND   +/MIN ALLOC/S"), "%s", out);
	ck_assert_msg(strstr(out, "outstanding ~"), "%s", out);
	free(out);
	json_decref(tap_stop(&shown.tap, 0));
	run_deinit(&shown.top);
	victim_stop(&shown.victim);
}

/* --- its end --------------------------------------------------------------------------------- */

static void check_signal(int signal, int status)
{
	struct shown shown;
	start_target(&shown);
	tap_look(&shown.tap, 0);
	start_top(&shown, (const char *[]){"-b", "-d", "0.3", "--json", NULL});
	run_until(has_tables(&shown.top, 1), TARGET_MS);
	kill(shown.top.pid, signal);
	ck_assert_int_eq(run_wait(&shown.top, TARGET_MS), status);
	if (signal == SIGKILL)
		tap_verify_soon(&shown.tap, TARGET_MS);
	else
		tap_verify(&shown.tap);
	run_deinit(&shown.top);
	victim_stop(&shown.victim);
}

HT_TEST(signals_end_it_and_the_target_is_left)
{
	check_signal(SIGINT, 0);
	check_signal(SIGTERM, 0);
	check_signal(SIGHUP, 0);
}

HT_TEST(a_killed_top_leaves_nothing)
{
	check_signal(SIGKILL, 128 + SIGKILL);
}

HT_TEST(the_last_table_of_a_target_that_ends)
{
	struct shown shown;
	size_t count;
	start_target(&shown);
	start_top(&shown, (const char *[]){"-b", "-d", "0.3", "--json", NULL});
	run_until(has_tables(&shown.top, 1), TARGET_MS);
	victim_stop(&shown.victim);
	ck_assert_int_eq(run_wait(&shown.top, TARGET_MS), 5);
	json_t *table = last_table(&shown.top, &count);
	ck_assert_str_eq(report_text(table, "state"), "ended");
	json_decref(table);
	char *err = run_err(&shown.top);
	ck_assert_ptr_nonnull(strstr(err, "heaptap: the capture has ended: "));
	free(err);
	run_deinit(&shown.top);
}

static void check_refused(const char *const argv[], int status, const char *words)
{
	HT_FREED char *err;
	ck_assert_int_eq(run_program(argv, RUN_REFUSAL_MS, NULL, &err), status);
	ck_assert_msg(strstr(err, words), "%s", err);
}

HT_TEST(wrong_use_is_refused)
{
	const char *heaptap = run_built("heaptap");
	check_refused((const char *[]){heaptap, "top", NULL}, 2, "top: -p PID is missing");
	check_refused((const char *[]){heaptap, "top", "-p", "1", "-n", "3", NULL}, 2,
		"-n counts the tables of -b");
	check_refused(
		(const char *[]){heaptap, "top", "-p", "1", "--json", NULL}, 2, "--json is for -b");
	check_refused((const char *[]){heaptap, "top", "-b", "-p", "4194304", NULL}, 3,
		"there is no process with PID 4194304");
}

HT_SUITE("integration/top")
