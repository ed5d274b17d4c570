/* SPDX-License-Identifier: Apache-2.0
 *
 * --settle: after the window only the frees of its blocks are recorded, to the last call, and the
 * blocks that are live at its end are the survivors.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/ht_check.h"
#include "tests/support/report.h"
#include "tests/support/run.h"
#include "tests/support/steer.h"
#include "tests/support/tap.h"
#include "tests/support/tracefile.h"
#include "tests/support/victim.h"

#define LIMIT_MS 20000

static struct victim victim;
static struct tap tap;

static bool settles(void)
{
	json_auto_t *status = steer_status(victim.pid);
	const char *state = json_string_value(json_object_get(status, "state"));
	bool ret = state && strcmp(state, "settling") == 0;
	return ret;
}

static void begin(const char *program, const char *const extra[])
{
	victim_start(&victim, (const char *[]){run_built(program), NULL});
	tap_start(&tap, victim.pid, extra);
	run_until(tap_is_recording(victim.pid), LIMIT_MS);
}

static void work(const char *command)
{
	free(victim_ask(&victim, command, LIMIT_MS));
}

static void await_settling(void)
{
	run_until(settles(), LIMIT_MS);
}

static void end(void)
{
	victim_prove_alive(&victim);
	victim_stop(&victim);
}

static void check_survivors(uint64_t outstanding, uint64_t survivors, uint64_t survivor_bytes)
{
	json_auto_t *report = report_load(tap.trace);
	ck_assert_uint_eq(report_u64(report, "totals.outstanding_blocks"), outstanding);
	ck_assert_uint_eq(report_u64(report, "totals.survivors_blocks"), survivors);
	ck_assert_uint_eq(report_u64(report, "totals.survivors_bytes"), survivor_bytes);
	ck_assert_uint_eq(
		report_u64(report, "settle.begin_ns"), report_u64(report, "capture.duration_ns"));
	ck_assert_uint_gt(
		report_u64(report, "settle.end_ns"), report_u64(report, "settle.begin_ns"));
}

/* 1000 blocks of 104 bytes in the window, of which 100 are freed in it and 300 after it, and 200
 * move after it: 600 survive, as large as they were. */
static void settle_and_count(const char *program, const char *const extra[])
{
	begin(program, extra);
	work("alloc 0 1000 104");
	work("free 0 100");
	ck_assert_msg(!settles(), "the machine is too slow for this test's window");
	await_settling();
	work("free 100 300");
	work("alloc 1000 2000 208");
	work("realloc 300 600 312"); /* moved, and never freed */
	work("realloc 300 400 416"); /* moved twice ... */
	work("free 300 400");	     /* ... and freed */
	work("free 1000 1500");
	char *out = NULL, *err = NULL;
	ck_assert_int_eq(steer("mark", victim.pid, "too late", &out, &err), 3);
	ck_assert_msg(strstr(err, "the window"), "%s", err);
	free(out);
	free(err);
	steer_do("stop", victim.pid, "--wait");
	tap_check_clean(tap_wait(&tap, 0));
	ck_assert_uint_eq(tracefile_blocks_of(tap.trace, 208), 0);
	check_survivors(900, 600, 600 * 104);
	end();
}

HT_TEST(survivors_are_exact)
{
	settle_and_count(
		"tests/targets/stepwise", (const char *[]){"-d", "2s", "--settle", "1h", NULL});
}

HT_TEST(survivors_of_a_sample_are_exact)
{
	settle_and_count("tests/targets/stepwise",
		(const char *[]){"-d", "2s", "--settle", "1h", "--sample", "1", NULL});
}

HT_TEST(survivors_of_hooked_code_are_exact)
{
	settle_and_count("tests/targets/stepwise-direct",
		(const char *[]){"-d", "2s", "--settle", "1h", "--hook", "auto", NULL});
}

HT_TEST(survivors_beside_sums_are_exact)
{
	settle_and_count("tests/targets/stepwise",
		(const char *[]){"-d", "2s", "--settle", "1h", "--cull", "1h", NULL});
}

/* The settle time ends by itself: exit status 0, and the window's end has the reason "duration". */
HT_TEST(the_settle_time_ends_by_itself)
{
	begin("tests/targets/stepwise", (const char *[]){"-d", "0.3s", "--settle", "0.3s", NULL});
	tap_check_clean(tap_wait(&tap, 0));
	json_t *report = report_load(tap.trace);
	ck_assert_str_eq(json_string_value(report_at(report, "capture.ended")), "duration");
	ck_assert_uint_eq(report_u64(report, "settle.wanted_ns"), 300000000);
	ck_assert_uint_ge(report_u64(report, "settle.end_ns"),
		report_u64(report, "settle.begin_ns") + 300000000);
	json_decref(report);
	end();
}

/* The limit that ended the window does not end the settle time, too. */
HT_TEST(a_window_that_ends_by_memory_settles)
{
	begin("tests/targets/stepwise",
		(const char *[]){"--until-rss", "1M", "--settle", "0.3s", NULL});
	tap_check_clean(tap_wait(&tap, 0));
	json_t *report = report_load(tap.trace);
	ck_assert_str_eq(json_string_value(report_at(report, "capture.ended")), "rss");
	ck_assert_uint_ge(report_u64(report, "settle.end_ns"),
		report_u64(report, "settle.begin_ns") + 300000000);
	json_decref(report);
	end();
}

HT_TEST(a_signal_ends_the_settle_time_at_once)
{
	begin("tests/targets/stepwise", (const char *[]){"-d", "0.3s", "--settle", "1h", NULL});
	await_settling();
	tap_check_clean(tap_stop(&tap, 0));
	json_t *report = report_load(tap.trace);
	ck_assert_str_eq(json_string_value(report_at(report, "capture.ended")), "signal");
	json_decref(report);
	end();
}

HT_TEST(a_target_may_end_while_it_settles)
{
	begin("tests/targets/stepwise", (const char *[]){"-d", "1s", "--settle", "1h", NULL});
	work("alloc 0 10 104");
	await_settling();
	work("free 0 4");
	victim_stop(&victim);
	json_decref(tap_wait(&tap, 5));
	check_survivors(10, 6, 6 * 104);
}

HT_TEST(a_window_without_an_end_does_not_settle)
{
	HT_FREED char *err;
	int status = run_program(
		(const char *[]){run_built("heaptap"), "attach", "-p", "1", "--settle", "1m", NULL},
		LIMIT_MS, NULL, &err);
	ck_assert_int_eq(status, 2);
	ck_assert_msg(strstr(err, "-d TIME"), "%s", err);
}

HT_SUITE("integration/settle")
