/* SPDX-License-Identifier: Apache-2.0
 *
 * Pauses of a capture: which calls are recorded during a pause, exactly, and what the report
 * says.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/ht_check.h"
#include "tests/support/report.h"
#include "tests/support/steer.h"
#include "tests/support/tap.h"
#include "tests/support/tracefile.h"
#include "tests/support/victim.h"

#define LIMIT_MS 20000

static struct victim victim;
static struct tap tap;

static void begin_with(const char *program, const char *const extra[])
{
	victim_start(&victim, (const char *[]){run_built(program), NULL});
	tap_start(&tap, victim.pid, extra);
	run_until(tap_is_recording(victim.pid), LIMIT_MS);
}

static void begin(void)
{
	begin_with("tests/targets/stepwise", NULL);
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

static uint64_t count_events(const struct tracefile *file, enum abi_event_kind kind)
{
	uint64_t count = 0;
	for (size_t i = 0; i < file->event_count; i++)
		count += file->event[i].kind == kind;
	return count;
}

static void check_pauses(const json_t *report, size_t count)
{
	const json_t *pauses = report_at(report, "pauses");
	uint64_t duration_ns = report_u64(report, "capture.duration_ns"), last_ns = 0;
	ck_assert_uint_eq(json_array_size(pauses), count);
	for (size_t i = 0; i < count; i++) {
		const json_t *pause = json_array_get(pauses, i);
		uint64_t begin_ns = report_u64(pause, "begin_ns");
		ck_assert_uint_ge(begin_ns, last_ns);
		last_ns = report_u64(pause, "end_ns");
		ck_assert_uint_gt(last_ns, begin_ns);
		ck_assert_uint_le(last_ns, duration_ns);
	}
}

/* A way to record: the program, and further options of attach. */
struct way {
	const char *program, *extra[3];
	/* A sample that takes each allocation records frees of sampled blocks only. */
	bool is_sample;
};

static void pause_and_count(const struct way *way)
{
	struct tracefile file;
	begin_with(way->program, way->extra);
	work("alloc 0 1000 104");
	steer_do("pause", victim.pid, NULL);
	steer_check_state(victim.pid, "paused");
	work("free 0 500");
	work("alloc 1000 2000 208");
	work("realloc 500 600 312");
	work("free 1000 1500");
	steer_do("resume", victim.pid, NULL);
	steer_check_state(victim.pid, "recording");
	work("free 1500 2000");
	work("free 500 1000"); /* blocks 500 to 599 were moved in the pause, so their addresses are
				  unknown */
	work("alloc 2000 2100 416");
	steer_do("stop", victim.pid, "--wait");
	tap_check_clean(tap_wait(&tap, 0));

	ck_assert_uint_eq(tracefile_blocks_of(tap.trace, 104), 1000);
	ck_assert_uint_eq(tracefile_blocks_of(tap.trace, 208), 0);
	ck_assert_uint_eq(tracefile_blocks_of(tap.trace, 312), 0);
	ck_assert_uint_eq(tracefile_blocks_of(tap.trace, 416), 100);
	tracefile_load(tap.trace, &file);
	ck_assert_uint_eq(count_events(&file, ABI_EVENT_ALLOC), 1100);
	ck_assert_uint_eq(count_events(&file, ABI_EVENT_FREE),
		way->is_sample ? 500 + 400 : 500 + 500 + 500 + 500);
	ck_assert_uint_eq(count_events(&file, ABI_EVENT_REALLOC_BEGIN), 100);
	ck_assert_uint_eq(count_events(&file, ABI_EVENT_REALLOC_FREED), 100);
	ck_assert_uint_eq(count_events(&file, ABI_EVENT_REALLOC_END), 0);
	tracefile_deinit(&file);

	json_t *report = report_load(tap.trace);
	ck_assert_uint_eq(report_u64(report, "totals.samples"), 1100);
	ck_assert_uint_eq(report_u64(report, "totals.outstanding_blocks"), 100);
	check_pauses(report, 1);
	json_decref(report);
	end();
}

HT_TEST(a_pause_is_exact)
{
	pause_and_count(&(struct way){"tests/targets/stepwise", {NULL}, false});
}

/* Each allocation is sampled: at a rate of 1 byte the probability is 1 - exp(-104) or higher. */
HT_TEST(a_pause_of_a_sample_is_exact)
{
	pause_and_count(&(struct way){"tests/targets/stepwise", {"--sample", "1", NULL}, true});
}

/* Entry hooks jump to the agent, and in a pause back to the function. */
HT_TEST(a_pause_of_hooked_code_is_exact)
{
	pause_and_count(
		&(struct way){"tests/targets/stepwise-direct", {"--hook", "auto", NULL}, false});
}

/* pause is idempotent, a capture may have many pauses, and the last one may last to the end. */
HT_TEST(pauses_may_be_many_and_the_last_one_open)
{
	begin();
	work("alloc 0 4 104");
	steer_do("pause", victim.pid, NULL);
	steer_do("pause", victim.pid, NULL);
	work("alloc 4 104 104");
	steer_do("resume", victim.pid, NULL);
	steer_do("resume", victim.pid, NULL);
	work("alloc 104 108 104");
	steer_do("pause", victim.pid, NULL);
	work("alloc 108 208 104");
	ck_assert_uint_eq(steer_figure(victim.pid, "pauses"), 2);
	tap_check_clean(tap_stop(&tap, 0));
	ck_assert_uint_eq(tracefile_blocks_of(tap.trace, 104), 8);
	json_t *report = report_load(tap.trace);
	check_pauses(report, 2);
	const json_t *last = json_array_get(report_at(report, "pauses"), 1);
	ck_assert_uint_eq(report_u64(last, "end_ns"), report_u64(report, "capture.duration_ns"));
	json_decref(report);
	end();
}

/* A heaptap that is killed in a pause leaves a process in which only some functions are hooked. */
HT_TEST(a_heaptap_killed_in_a_pause_leaves_nothing)
{
	begin();
	steer_do("pause", victim.pid, NULL);
	pid_t guardian = tap_kill_daemon(&tap);
	work("alloc 0 100 104");
	kill(guardian, SIGCONT);
	run_until(tap_guardian_is_done(victim.pid), LIMIT_MS);
	tap_verify(&tap);
	work("free 0 100");
	end();
}

static bool is_in_state(const char *state)
{
	json_auto_t *status = steer_status(victim.pid);
	bool ret = strcmp(report_text(status, "state"), state) == 0;
	return ret;
}

/* A program that mostly allocates exceeds the limit; one that mostly computes does not. */
HT_TEST(max_overhead_pauses_and_resumes)
{
	begin_with("tests/targets/stepwise", (const char *[]){"--max-overhead", "1%", NULL});
	uint64_t until_ms = run_now_ms() + LIMIT_MS;
	while (!is_in_state("paused") && run_now_ms() < until_ms) {
		work("alloc 0 20000 104");
		work("free 0 20000");
	}
	steer_check_state(victim.pid, "paused");
	ck_assert_uint_eq(steer_figure(victim.pid, "paused_by_overhead"), 1);
	ck_assert_uint_gt(steer_figure(victim.pid, "overhead_ppm"), 10000);
	char *err = NULL;
	ck_assert_int_eq(steer("resume", victim.pid, NULL, NULL, &err), 3);
	ck_assert_msg(strstr(err, "--max-overhead"), "%s", err);
	free(err);
	work("alloc 0 1000 208"); /* not recorded in the pause; their later frees are frees of
				     unknown blocks */
	while (!is_in_state("recording") && run_now_ms() < until_ms)
		work("burn 0 50");
	steer_check_state(victim.pid, "recording");
	work("free 0 1000");
	work("alloc 0 100 416");
	json_t *attach = tap_stop(&tap, 0);
	ck_assert_uint_eq(report_u64(attach, "overhead_limit_ppm"), 10000);
	ck_assert_uint_gt(report_u64(attach, "overhead_ppm"), 0);
	ck_assert_uint_ge(report_u64(attach, "pauses"), 1);
	tap_check_clean(attach);
	ck_assert_uint_eq(tracefile_blocks_of(tap.trace, 208), 0);
	ck_assert_uint_eq(tracefile_blocks_of(tap.trace, 416), 100);
	json_t *report = report_load(tap.trace);
	ck_assert_uint_ge(json_array_size(report_at(report, "pauses")), 1);
	ck_assert_uint_eq(report_u64(report, "totals.outstanding_blocks"), 100);
	json_decref(report);
	end();
}

/* heaptap never resumes a pause of the user by itself. */
HT_TEST(a_pause_of_the_user_lasts)
{
	begin_with("tests/targets/stepwise", (const char *[]){"--max-overhead", "100%", NULL});
	steer_do("pause", victim.pid, NULL);
	work("burn 0 300");
	steer_check_state(victim.pid, "paused");
	ck_assert_uint_eq(steer_figure(victim.pid, "paused_by_overhead"), 0);
	steer_do("resume", victim.pid, NULL);
	steer_check_state(victim.pid, "recording");
	tap_check_clean(tap_stop(&tap, 0));
	end();
}

HT_SUITE("integration/pause")
