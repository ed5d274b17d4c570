/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap snapshot: a whole trace of what was recorded up to now, while the capture goes on.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/files.h"
#include "tests/support/ht_check.h"
#include "tests/support/report.h"
#include "tests/support/steer.h"
#include "tests/support/tap.h"
#include "tests/support/tmpdir.h"
#include "tests/support/victim.h"

#define LIMIT_MS 20000
#define USAGE	 2
#define REFUSED	 3

static struct victim victim;
static struct tap tap;

static void begin_with(const char *program, const char *const extra[])
{
	victim_start(&victim, (const char *[]){program, NULL});
	tap_start(&tap, victim.pid, extra);
	tap_wait_on(&tap, strrchr(program, '/'));
}

static bool is_recording(void)
{
	json_auto_t *capture = steer_status(victim.pid);
	bool is = strcmp(report_text(capture, "state"), "recording") == 0;
	return is;
}

/* Is the file a complete trace, with the footer that heaptap writes last? */
static bool tracefile_is_complete(const char *path)
{
	char *out = NULL;
	if (access(path, F_OK) != 0)
		return false;
	int status = run_program(
		(const char *[]){run_built("heaptap"), "info", path, NULL}, LIMIT_MS, &out, NULL);
	bool is = status == 0 && strstr(out, "file         complete\n");
	free(out);
	return is;
}

static void work(const char *command)
{
	free(victim_ask(&victim, command, LIMIT_MS));
}

static void end(void)
{
	victim_prove_alive(&victim);
	victim_stop(&victim);
}

static int take(const char *path, char **out, char **err)
{
	char pid[16];
	snprintf(pid, sizeof(pid), "%d", victim.pid);
	return run_program((const char *[]){run_built("heaptap"), "snapshot", "-p", pid, "-o", path,
				   "--json", NULL},
		LIMIT_MS, out, err);
}

/* Takes a snapshot trace with this name and returns its report. */
static json_t *snapshot(const char *name)
{
	char *path = tmpdir_path(name), *out, *err;
	int status = take(path, &out, &err);
	ck_assert_msg(status == 0, "%d: %s", status, err);
	json_t *answer = report_parse(out);
	ck_assert_str_eq(report_text(answer, "schema"), "heaptap.snapshot/1");
	ck_assert_str_eq(report_text(answer, "trace"), path);
	ck_assert_msg(json_is_null(report_at(answer, "problem")), "%s", out);
	json_decref(answer);
	json_t *report = report_load(path);
	free(path);
	free(out);
	free(err);
	return report;
}

static void check_allocations(json_t *report, uint64_t expected)
{
	ck_assert_uint_eq(report_u64(report, "totals.allocations"), expected);
	json_decref(report);
}

static void check_info(const char *name)
{
	char *path = tmpdir_path(name), *out;
	ck_assert_int_eq(run_program((const char *[]){run_built("heaptap"), "info", path, NULL},
				 LIMIT_MS, &out, NULL),
		0);
	ck_assert_msg(strstr(out, "file         complete\n"), "%s", out);
	ck_assert_msg(strstr(out, "ended: snapshot\n"), "%s", out);
	ck_assert_msg(strstr(out, "process      the capture went on\n"), "%s", out);
	ck_assert_msg(strstr(out, "events       1,000\n") || strstr(out, "events       1000\n"),
		"%s", out);
	free(path);
	free(out);
}

/* --- what is in it --------------------------------------------------------------------------- */

HT_TEST(it_has_all_until_now_and_the_capture_goes_on)
{
	begin_with(run_built("tests/targets/stepwise"), NULL);
	work("alloc 0 1000 104");
	check_allocations(snapshot("first.htap"), 1000);
	check_info("first.htap");
	work("alloc 1000 1500 104");
	check_allocations(snapshot("second.htap"), 1500);
	tap_check_clean(tap_stop(&tap, 0));
	check_allocations(report_load(tap.trace), 1500);
	end();
}

static bool has_function(const json_t *report, const char *name)
{
	char *text = json_dumps(report, 0), quoted[64];
	snprintf(quoted, sizeof(quoted), "\"%s\"", name);
	bool has = strstr(text, quoted) != NULL;
	free(text);
	return has;
}

/* The file of the program is gone: only the running process still leads to it. */
HT_TEST(functions_of_a_deleted_program_have_names)
{
	char *program = tmpdir_path("deleted");
	ck_assert_int_eq(run_program((const char *[]){"cp", run_built("tests/targets/stepwise"),
					     program, NULL},
				 LIMIT_MS, NULL, NULL),
		0);
	victim_start(&victim, (const char *[]){program, NULL});
	ck_assert_int_eq(unlink(program), 0);
	tap_start(&tap, victim.pid, NULL);
	tap_wait_any(&tap);
	work("alloc 0 10 104");
	json_t *report = snapshot("deleted.htap");
	ck_assert_msg(has_function(report, "work_on"), "no names");
	json_decref(report);
	tap_check_clean(tap_stop(&tap, 0));
	free(program);
	end();
}

/* A file that is to replace another is written beside it until the end. */
HT_TEST(a_trace_that_is_to_replace_another_is_read)
{
	begin_with(run_built("tests/targets/stepwise"), (const char *[]){"-f", NULL});
	work("alloc 0 7 104");
	check_allocations(snapshot("beside.htap"), 7);
	tap_check_clean(tap_stop(&tap, 0));
	end();
}

/* --- signals --------------------------------------------------------------------------------- */

HT_TEST(a_signal_takes_a_snapshot)
{
	char *path = NULL;
	begin_with(run_built("tests/targets/stepwise"), NULL);
	work("alloc 0 7 104");
	ck_assert_int_eq(kill(tap.run.pid, SIGUSR1), 0);
	const char *end_of_name = strstr(tap.trace, ".htap");
	ck_assert_int_ge(
		asprintf(&path, "%.*s.snapshot.1.htap", (int)(end_of_name - tap.trace), tap.trace),
		0);
	run_until(tracefile_is_complete(path), LIMIT_MS);
	check_allocations(report_load(path), 7);
	free(path);
	tap_check_clean(tap_stop(&tap, 0));
	end();
}

HT_TEST(a_signal_begins_and_ends_a_pause)
{
	begin_with(run_built("tests/targets/stepwise"), NULL);
	ck_assert_int_eq(kill(tap.run.pid, SIGUSR2), 0);
	run_until(steer_figure(victim.pid, "pauses") == 1, LIMIT_MS);
	steer_check_state(victim.pid, "paused");
	work("alloc 0 7 104");
	ck_assert_int_eq(kill(tap.run.pid, SIGUSR2), 0);
	run_until(steer_figure(victim.pid, "paused_ns") > 0 && is_recording(), LIMIT_MS);
	work("alloc 7 10 104");
	tap_check_clean(tap_stop(&tap, 0));
	check_allocations(report_load(tap.trace), 3);
	end();
}

/* --- refusals -------------------------------------------------------------------------------- */

HT_TEST(what_exists_is_not_replaced)
{
	char *err, *path = tmpdir_path("existing");
	begin_with(run_built("tests/targets/stepwise"), NULL);
	files_write(path, "mine\n");
	ck_assert_int_eq(take(path, NULL, &err), USAGE);
	ck_assert_msg(strstr(err, "exists"), "%s", err);
	files_check(path, "mine\n");
	free(err);
	ck_assert_int_eq(take("-", NULL, &err), USAGE);
	ck_assert_msg(strstr(err, "a snapshot is a file"), "%s", err);
	tap_check_clean(tap_stop(&tap, 0));
	free(err);
	ck_assert_int_eq(take(path, NULL, &err), REFUSED);
	free(err);
	free(path);
	end();
}

HT_TEST(standard_output_cannot_be_read_back)
{
	struct run run;
	char pid[16], *err, *path = tmpdir_path("none.htap");
	victim_start(&victim, (const char *[]){run_built("tests/targets/stepwise"), NULL});
	snprintf(pid, sizeof(pid), "%d", victim.pid);
	run_start(
		&run, (const char *[]){run_built("heaptap"), "attach", "-p", pid, "-o", "-", NULL});
	run_until(tap_is_recording(victim.pid), LIMIT_MS);
	ck_assert_int_eq(take(path, NULL, &err), REFUSED);
	ck_assert_msg(strstr(err, "standard output"), "%s", err);
	ck_assert_int_ne(access(path, F_OK), 0);
	free(err);
	free(path);
	steer_do("stop", victim.pid, NULL);
	ck_assert_int_eq(run_wait(&run, LIMIT_MS), 0);
	run_deinit(&run);
	end();
}

HT_SUITE_WAITING("integration/snapshot_trace", it_has_all_until_now_and_the_capture_goes_on,
	functions_of_a_deleted_program_have_names, a_trace_that_is_to_replace_another_is_read,
	a_signal_takes_a_snapshot, a_signal_begins_and_ends_a_pause)
