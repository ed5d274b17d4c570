/* SPDX-License-Identifier: Apache-2.0
 *
 * A heaptap that waits for its next window, its trigger or its process: list, status and stop work
 * on it, other commands refuse, and if another capture of the process runs, they mean that one.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "format/control_client.h"
#include "tests/support/ht_check.h"
#include "tests/support/report.h"
#include "tests/support/run.h"
#include "tests/support/slow_analyzer.h"
#include "tests/support/steer.h"
#include "tests/support/tap.h"
#include "tests/support/tmpdir.h"
#include "tests/support/victim.h"

#define RUN_MS	  60000
#define ANSWER_MS 10000
#define WORDS_MAX 20
#define HOUR_NS	  3600000000000ull
#define REFUSED	  3

static struct victim victim;
static struct run run;
static char *trace;
static char digits[16];

static void begin(void)
{
	victim_start(&victim, (const char *[]){run_built("tests/targets/resident"), NULL});
	snprintf(digits, sizeof(digits), "%d", victim.pid);
	trace = tmpdir_path("w.htap");
}

/* Starts heaptap attach with `words`. */
static void start(const char *const words[])
{
	const char *argv[WORDS_MAX] = {
		run_built("heaptap"), "attach", "-p", digits, "-f", "-o", trace};
	for (size_t at = 7; *words && at < WORDS_MAX - 1; words++)
		argv[at++] = *words;
	run_start(&run, argv);
}

/* Does list show a heaptap that waits to record the process? */
static bool is_waiting(pid_t pid)
{
	HT_FREED char *out;
	const bool ret = steer("status", pid, "--quiet", &out, NULL) == 0;
	return ret;
}

static bool is_in_state(pid_t pid, const char *state)
{
	HT_FREED char *out;
	bool ret = steer("status", pid, "--json", &out, NULL) == 0;
	if (ret) {
		json_t *status = report_parse(out);
		const json_t *capture = json_array_get(report_at(status, "captures"), 0);
		ret = strcmp(report_text(capture, "state"), state) == 0;
		json_decref(status);
	}
	return ret;
}

static void check_end(int status, const char *words)
{
	const int got = run_wait(&run, RUN_MS);
	char *err = run_err(&run);
	ck_assert_msg(got == status && strstr(err, words), "exit status %d: %s", got, err);
	free(err);
	run_deinit(&run);
}

static void check_says(const char *command, const char *word, int status, const char *words)
{
	HT_FREED char *out, *err;
	const int got = steer(command, victim.pid, word, &out, &err);
	ck_assert_msg(got == status && strstr(status ? err : out, words), "%s: %d: %s%s", command,
		got, out, err);
}

static uint64_t unix_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

static void end(void)
{
	victim_stop(&victim);
	free(trace);
}

/* --- for a time ------------------------------------------------------------------------------ */

static void check_status(uint64_t before_ns)
{
	json_auto_t *series = steer_status(victim.pid);
	ck_assert_str_eq(report_text(series, "state"), "waiting");
	ck_assert_str_eq(report_text(series, "comm"), "resident");
	ck_assert_uint_eq(report_u64(series, "heaptap_pid"), (uint64_t)run.pid);
	ck_assert_uint_eq(report_u64(series, "uid"), geteuid());
	ck_assert_uint_eq(report_u64(series, "window"), 1);
	ck_assert_uint_eq(report_u64(series, "windows"), 3);
	ck_assert_uint_ge(report_u64(series, "next_unix_ns"), before_ns + HOUR_NS);
	ck_assert_uint_le(report_u64(series, "next_unix_ns"), unix_ns() + HOUR_NS);
	ck_assert_str_eq(report_text(series, "waits_for"), "");
}

static void check_listed(bool is_there)
{
	char *out, line[64];
	snprintf(line, sizeof(line), "\n%-8d %-16s waiting ", victim.pid, "resident");
	ck_assert_int_eq(run_program((const char *[]){run_built("heaptap"), "list", NULL}, RUN_MS,
				 &out, NULL),
		0);
	const char *row = strstr(out, line);
	ck_assert_msg((row != NULL) == is_there, "%s", out);
	ck_assert(!row || strstr(row, " window 1 of 3 begins at "));
	free(out);
}

HT_TEST(a_series_that_waits_is_seen_and_stopped)
{
	char metric[128];
	const uint64_t before_ns = unix_ns();
	begin();
	start((const char *[]){"--delay", "1h", "-d", "1s", "--every", "2h", "--count", "3", NULL});
	run_until(is_waiting(victim.pid), RUN_MS);
	check_status(before_ns);
	check_listed(true);
	check_says("status", NULL, 0, "  next     window 1 of 3 begins at ");
	snprintf(metric, sizeof(metric),
		"\nheaptap_waiting_info{uid=\"%u\",pid=\"%d\",comm=\"resident\",waits_for=\"\"",
		(unsigned)geteuid(), victim.pid);
	check_says("status", "--metrics", 0, metric);
	check_says("stop", NULL, 0, ": the series ends; no window follows");
	check_end(0, "nothing was recorded");
	ck_assert_int_ne(access(trace, F_OK), 0);
	check_listed(false);
	check_says("stop", NULL, REFUSED, "no capture of process");
	end();
}

HT_TEST(what_needs_a_capture_is_refused)
{
	begin();
	start((const char *[]){"--delay", "1h", NULL});
	run_until(is_waiting(victim.pid), RUN_MS);
	const char *why = "nothing is recorded now: window 1 begins in ";
	check_says("pause", NULL, REFUSED, why);
	check_says("resume", NULL, REFUSED, why);
	check_says("mark", "here", REFUSED, why);
	check_says("snapshot", NULL, REFUSED, why);
	check_says("stop", NULL, 0, "the series ends");
	check_end(0, "nothing was recorded");
	end();
}

HT_TEST(a_series_is_stopped_between_two_windows)
{
	begin();
	start((const char *[]){"-d", "0.2s", "--every", "1h", NULL});
	run_until(is_in_state(victim.pid, "waiting"), RUN_MS);
	json_t *series = steer_status(victim.pid);
	ck_assert_uint_eq(report_u64(series, "window"), 2);
	ck_assert_uint_eq(report_u64(series, "windows"), 0);
	json_decref(series);
	/* stop --wait answers when the series has ended. */
	check_says("stop", "--wait", 0,
		": the series has ended with status 0: 1 trace was recorded before\n");
	check_end(0, "process unchanged");
	json_t *report = report_load(tmpdir_path("w.001.htap"));
	ck_assert_str_eq(report_text(report, "capture.ended"), "duration");
	json_decref(report);
	end();
}

/* --- for memory and for a process ------------------------------------------------------------ */

/* `count` NULL: a series without an end. */
static void check_numbered(const char *count, const char *window, const char *row)
{
	char *out;
	start((const char *[]){"-d", "1h", "--every", "2h", count ? "--count" : NULL, count, NULL});
	run_until(tap_is_recording(victim.pid) && is_in_state(victim.pid, "recording"), RUN_MS);
	check_says("status", NULL, 0, window);
	ck_assert_int_eq(run_program((const char *[]){run_built("heaptap"), "list", NULL}, RUN_MS,
				 &out, NULL),
		0);
	ck_assert_msg(strstr(out, row), "%s", out);
	free(out);
	json_auto_t *capture = steer_status(victim.pid);
	ck_assert_uint_eq(report_u64(capture, "window"), 1);
	ck_assert_uint_eq(report_u64(capture, "windows"), count ? 2 : 0);
	check_says("stop", "--wait", 0, "ended");
	check_end(0, "process unchanged");
}

HT_TEST(a_window_that_is_recorded_has_its_number)
{
	begin();
	check_numbered("2", "\n  window   1 of 2\n", "  window 1 of 2\n");
	check_numbered(NULL, "\n  window   1\n", "  window 1\n");
	end();
}

/* The page of a large trace may take longer than the time between two windows. */
HT_TEST(a_series_is_stopped_while_it_writes_a_page)
{
	begin();
	slow_analyzer_begin();
	start((const char *[]){"-d", "0.2s", "--every", "1s", "--count", "9", "--html",
		"--symbolize", "later", NULL});
	slow_analyzer_end();
	run_until(is_in_state(victim.pid, "waiting"), RUN_MS);
	check_says("status", NULL, 0,
		"  next     window 2 of 9 begins when the page of the window before is written");
	check_says("pause", NULL, REFUSED, "nothing is recorded now: window 2 begins");
	check_says("stop", NULL, 0, "");
	slow_analyzer_let_go();
	check_end(0, "process unchanged");
	HT_FREED char *second = tmpdir_path("w.002.htap");
	ck_assert_int_ne(access(second, F_OK), 0);
	end();
}

HT_TEST(a_trigger_is_named)
{
	begin();
	start((const char *[]){
		"--trigger-rss", "60M", "--trigger-growth", "40M/min", "-d", "0.2s", NULL});
	run_until(is_waiting(victim.pid), RUN_MS);
	json_t *series = steer_status(victim.pid);
	ck_assert_uint_eq(report_u64(series, "next_unix_ns"), 0);
	ck_assert_str_eq(report_text(series, "waits_for"),
		"its RSS is 60.0 MiB or its RSS has grown by 40.0 MiB within 60 s");
	json_decref(series);
	check_says("status", NULL, 0, "window 1 begins when its RSS is 60.0 MiB or its RSS has ");
	check_says("mark", "x", REFUSED, "window 1 begins when its RSS is 60.0 MiB or");
	/* The commands have not disturbed the wait. */
	free(victim_ask(&victim, "anonymous 80", ANSWER_MS));
	check_end(0, "process unchanged");
	end();
}

HT_TEST(a_wait_for_a_process_is_seen_by_heaptaps_own_number)
{
	char name[32];
	snprintf(name, sizeof(name), "awaited-%d", getpid());
	trace = tmpdir_path("none.htap");
	run_start(&run, (const char *[]){run_built("heaptap"), "attach", "--wait-for", name, "-o",
				trace, NULL});
	victim.pid = run.pid;
	run_until(is_waiting(run.pid), RUN_MS);
	json_t *series = steer_status(run.pid);
	ck_assert_str_eq(report_text(series, "state"), "waiting");
	ck_assert_uint_eq(report_u64(series, "heaptap_pid"), (uint64_t)run.pid);
	ck_assert_ptr_nonnull(strstr(report_text(series, "waits_for"), name));
	json_decref(series);
	check_says(
		"stop", "--wait", 0, ": the series has ended with status 0: nothing was recorded");
	check_end(0, "");
	ck_assert_int_ne(access(trace, F_OK), 0);
	free(trace);
}

/* --- beside a capture, and after a death ----------------------------------------------------- */

HT_TEST(a_capture_beside_it_comes_first)
{
	struct tap tap;
	begin();
	start((const char *[]){"--delay", "1h", NULL});
	run_until(is_waiting(victim.pid), RUN_MS);
	tap_start(&tap, victim.pid, NULL);
	tap_wait_any(&tap);
	steer_check_state(victim.pid, "recording");
	steer_do("mark", victim.pid, "here");
	steer_do("stop", victim.pid, NULL);
	tap_check_clean(tap_wait(&tap, 0));
	ck_assert(!run_has_ended(&run));
	steer_check_state(victim.pid, "waiting");
	steer_do("stop", victim.pid, NULL);
	check_end(0, "nothing was recorded");
	end();
}

/* top cannot join a waiting heaptap, which has no trace, and starts its own capture. */
HT_TEST(top_starts_a_capture_beside_it)
{
	char *out;
	begin();
	start((const char *[]){"--delay", "1h", NULL});
	run_until(is_waiting(victim.pid), RUN_MS);
	ck_assert_int_eq(run_program((const char *[]){run_built("heaptap"), "top", "-b", "-d",
					     "0.2", "-n", "1", "-p", digits, NULL},
				 RUN_MS, &out, NULL),
		0);
	ck_assert_int_eq(strncmp(out, "heaptap top - resident ", 23), 0);
	free(out);
	steer_do("stop", victim.pid, NULL);
	check_end(0, "nothing was recorded");
	end();
}

/* Two heaptaps may wait for one process: each has its own socket. */
HT_TEST(two_wait_for_one_process)
{
	struct run other;
	begin();
	start((const char *[]){"--delay", "1h", NULL});
	run_until(is_waiting(victim.pid), RUN_MS);
	other = run;
	start((const char *[]){"--delay", "2h", NULL});
	run_until(strstr(run_err(&run), "window 1 begins in") != NULL, RUN_MS);
	steer_do("stop", victim.pid, NULL);
	run_until(run_has_ended(&run) || run_has_ended(&other), RUN_MS);
	ck_assert(!run_has_ended(&run) || !run_has_ended(&other));
	run_until(is_waiting(victim.pid), RUN_MS);
	steer_do("stop", victim.pid, NULL);
	check_end(0, "nothing was recorded");
	run = other;
	check_end(0, "nothing was recorded");
	end();
}

static bool has_socket(pid_t waiter)
{
	struct control_clients clients;
	bool ret = false;
	ck_no_err(control_client_list(&clients));
	for (size_t i = 0; i < clients.count; i++)
		ret |= clients.client[i].waiter == waiter;
	control_clients_deinit(&clients);
	return ret;
}

HT_TEST(the_socket_goes_with_the_wait)
{
	begin();
	start((const char *[]){"--delay", "1h", NULL});
	run_until(is_waiting(victim.pid), RUN_MS);
	ck_assert(has_socket(run.pid));
	kill(run.pid, SIGINT);
	const pid_t ended = run.pid;
	check_end(0, "nothing was recorded");
	ck_assert(!has_socket(ended));
	/* list does not show the socket of a killed heaptap, and the next heaptap removes it. */
	start((const char *[]){"--delay", "1h", NULL});
	run_until(is_waiting(victim.pid), RUN_MS);
	kill(run.pid, SIGKILL);
	const pid_t killed = run.pid;
	check_end(128 + SIGKILL, "");
	ck_assert(has_socket(killed));
	check_says("status", NULL, REFUSED, "no capture of process");
	start((const char *[]){"--delay", "1h", NULL});
	run_until(is_waiting(victim.pid), RUN_MS);
	ck_assert(!has_socket(killed));
	steer_do("stop", victim.pid, NULL);
	check_end(0, "nothing was recorded");
	end();
}

HT_SUITE("integration/waiting")