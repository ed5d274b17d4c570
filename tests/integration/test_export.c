/* SPDX-License-Identifier: Apache-2.0
 *
 * Exports of four kinds of target, read by heaptrack's programs: heaptrack_gui draws them without
 * an error, and heaptrack_print finds the totals that heaptap prints. Also the export of an empty
 * window.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/report.h"
#include "tests/support/run.h"
#include "tests/support/tap.h"
#include "tests/support/tmpdir.h"
#include "tests/support/victim.h"

#define ANSWER_MS 60000
#define LOAD_MS	  90000
#define GUI_MS	  10000 /* by then heaptrack_gui has read the export, or has crashed */

struct totals {
	uint64_t calls, temporary, peak_bytes, leaked_bytes;
};

static uint64_t rounds_of(struct victim *victim)
{
	HT_FREED char *answer = victim_ask(victim, "count", ANSWER_MS);
	uint64_t rounds = strtoull(answer, NULL, 10);
	return rounds;
}

/* Captures a target while it does `rounds` of its own work. */
static void record(struct tap *tap, const char *const argv[], unsigned changes, uint64_t rounds,
	const char *const extra[])
{
	struct victim victim;
	victim_start(&victim, argv);
	tap_start_changing(tap, victim.pid, changes, extra);
	tap_wait_any(tap);
	uint64_t until = rounds ? rounds_of(&victim) + rounds : 0;
	run_until(!until || rounds_of(&victim) >= until, LOAD_MS);
	tap_check_clean(tap_stop(tap, 0));
	victim_stop(&victim);
}

/* The number in the line that begins with `name`. */
static uint64_t stated(const char *stats, const char *name)
{
	const char *at = stats;
	while (at && strncmp(at, name, strlen(name)) != 0) {
		at = strchr(at, '\n');
		at += at != NULL;
	}
	ck_assert_msg(at != NULL, "no \"%s\" in %s", name, stats);
	return strtoull(at + strlen(name), NULL, 10);
}

static struct totals export_trace(const char *trace, const char *path)
{
	HT_FREED char *stats;
	int status = run_program((const char *[]){run_built("heaptap"), "export", trace, "--format",
					 "heaptrack", "--stats", "-o", path, NULL},
		ANSWER_MS, NULL, &stats);
	ck_assert_msg(status == 0, "export ended with %d: %s", status, stats);
	struct totals totals = {
		.calls = stated(stats, "calls "),
		.temporary = stated(stats, "temporary "),
		.peak_bytes = stated(stats, "peak_bytes "),
		.leaked_bytes = stated(stats, "leaked_bytes "),
	};
	return totals;
}

/* Fails if a reader printed one of its messages for files that it does not understand. */
static void check_silent(const char *reader, const char *words)
{
	static const char *const complaint[] = {
		"failed", "Failed", "corrupt", "out of bounds", "unexpected", "Damaged", "ASSERT"};
	for (size_t i = 0; i < HT_ARRAY_SIZE(complaint); i++)
		ck_assert_msg(!strstr(words, complaint[i]), "%s: %s", reader, words);
}

static void check_print(const char *path, const struct totals *totals)
{
	HT_FREED char *out, *err;
	int status = run_program(
		(const char *[]){"heaptrack_print", "--disable-builtin-suppressions", path, NULL},
		ANSWER_MS, &out, &err);
	ck_assert_msg(status == 0, "heaptrack_print ended with %d: %s", status, err);
	check_silent("heaptrack_print", err);
	report_check_amount(out, "calls to allocation functions: ", totals->calls);
	report_check_amount(out, "temporary memory allocations: ", totals->temporary);
	report_check_amount(out, "peak heap memory consumption: ", totals->peak_bytes);
	report_check_amount(out, "total memory leaked: ", totals->leaked_bytes);
}

/* heaptrack_gui keeps its settings in the directory of the test. */
static void prepare_gui(void *context)
{
	setenv("QT_QPA_PLATFORM", "offscreen", 1);
	setenv("HOME", context, 1);
	setenv("XDG_RUNTIME_DIR", context, 1);
	setenv("XDG_CONFIG_HOME", context, 1);
}

static void check_gui(const char *path)
{
	struct run gui;
	HT_FREED char *home = tmpdir_path("home");
	ck_assert_int_eq(mkdir(home, 0700), 0);
	run_start_prepared(&gui, (const char *[]){"heaptrack_gui", path, NULL}, prepare_gui, home);
	for (uint64_t end = run_now_ms() + GUI_MS; run_now_ms() < end; run_pause()) {
		if (run_has_ended(&gui))
			break;
	}
	HT_FREED char *words = run_err(&gui);
	ck_assert_msg(
		!run_has_ended(&gui), "heaptrack_gui ended with status %x: %s", gui.status, words);
	check_silent("heaptrack_gui", words);
	run_deinit(&gui);
}

static struct totals check_readers(const char *trace)
{
	HT_FREED char *path = tmpdir_path("heaptrack.txt");
	struct totals totals = export_trace(trace, path);
	check_print(path, &totals);
	check_gui(path);
	return totals;
}

/* heaptrack's totals must equal those of heaptap's report. */
static void check_reported(const char *trace, const struct totals *totals)
{
	json_auto_t *report = report_load(trace);
	ck_assert_uint_gt(totals->calls, 0);
	ck_assert_uint_eq(totals->calls, report_u64(report, "totals.allocations"));
	ck_assert_uint_eq(totals->peak_bytes, report_u64(report, "totals.peak_bytes"));
	ck_assert_uint_eq(totals->leaked_bytes, report_u64(report, "totals.outstanding_bytes"));
}

HT_TEST(cxx)
{
	struct tap tap;
	record(&tap, (const char *[]){run_built("tests/targets/cxx"), NULL}, 0, 300, NULL);
	struct totals totals = check_readers(tap.trace);
	check_reported(tap.trace, &totals);
}

HT_TEST(node)
{
	struct tap tap;
	record(&tap, (const char *[]){"/usr/bin/node", "tests/targets/script.js", NULL},
		PROCSNAP_NODE, 100, NULL);
	struct totals totals = check_readers(tap.trace);
	check_reported(tap.trace, &totals);
}

HT_TEST(rust)
{
	struct tap tap;
	record(&tap, (const char *[]){run_built("tests/targets/rust"), NULL}, 0, 300, NULL);
	struct totals totals = check_readers(tap.trace);
	check_reported(tap.trace, &totals);
}

HT_TEST(sampled)
{
	struct tap tap;
	record(&tap, (const char *[]){run_built("tests/targets/cxx"), NULL}, 0, 300,
		(const char *[]){"--sample", "4096", NULL});
	ck_assert_uint_gt(check_readers(tap.trace).calls, 0);
}

HT_TEST(empty)
{
	struct tap tap;
	record(&tap, (const char *[]){run_built("tests/targets/actor"), NULL}, 0, 0, NULL);
	ck_assert_uint_eq(check_readers(tap.trace).calls, 0);
}

HT_SUITE_WAITING("integration/export", cxx, node, rust, sampled, empty)
