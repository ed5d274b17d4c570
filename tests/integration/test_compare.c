/* SPDX-License-Identifier: Apache-2.0
 *
 * diff, trend and check on captures of one program: they find what leaks in the second capture, and
 * never call unchanged sites changed, however long the windows are.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/ht_check.h"
#include "tests/support/report.h"
#include "tests/support/run.h"
#include "tests/support/sample.h"
#include "tests/support/tap.h"
#include "tests/support/tmpdir.h"
#include "tests/support/victim.h"

#define RUN_MS	   60000
#define ANALYZE_MS 60000
#define EXCEEDED   8

/* Captures tests/targets/service while it works for `ms`; `leak` percent of its sessions leak.
 * Returns the trace's path, malloc'd. */
static char *record(uint64_t seed, const char *leak, unsigned ms)
{
	struct victim victim;
	struct tap tap;
	char number[32], command[32], name[64];
	snprintf(number, sizeof(number), "%llu", (unsigned long long)seed);
	snprintf(command, sizeof(command), "run %u", ms);
	snprintf(name, sizeof(name), "%llu-%s-%u.htap", (unsigned long long)seed, leak, ms);
	victim_start(
		&victim, (const char *[]){run_built("tests/targets/service"), number, leak, NULL});
	tap_start(&tap, victim.pid, NULL);
	tap_wait_on(&tap, "/service");
	free(victim_ask(&victim, command, RUN_MS));
	tap_check_clean(tap_stop(&tap, 0));
	victim_stop(&victim);
	char *path = tmpdir_path(name);
	ck_assert_int_eq(rename(tap.trace, path), 0);
	return path;
}

/* Runs heaptap with `words`. Returns its exit status; `ret_out` and `ret_err` get its output,
 * malloc'd. */
static int analyze(const char *const words[], char **ret_out, char **ret_err)
{
	const char *argv[16] = {run_built("heaptap")};
	for (size_t i = 0; words[i]; i++)
		argv[i + 1] = words[i];
	return run_program(argv, ANALYZE_MS, ret_out, ret_err);
}

static size_t line_count(const char *text)
{
	size_t lines = 0;
	for (; *text; text++)
		lines += *text == '\n';
	return lines;
}

static json_t *diff_of(const char *old, const char *new)
{
	HT_FREED char *out;
	ck_assert_int_eq(analyze((const char *[]){"diff", old, new, "--json", "--limit", "0", NULL},
				 &out, NULL),
		0);
	json_t *diff = report_parse(out);
	return diff;
}

static bool is_ours(const json_t *site)
{
	const char *file = json_string_value(json_object_get(site, "file"));
	return file && strstr(file, "service.c");
}

/* --- a leak ------------------------------------------------------------------------------------
 */

static void check_diff(const char *calm, const char *leaking, const char *change)
{
	json_t *diff = diff_of(calm, leaking), *site;
	size_t index;
	json_array_foreach(report_at(diff, "sites"), index, site)
	{
		const char *function = json_string_value(json_object_get(site, "function"));
		const char *found = report_text(site, "change");
		if (index == 0)
			ck_assert_msg(function && !strcmp(function, "open_session") &&
					      !strcmp(found, change),
				"%s %s is first", found, function);
		else if (is_ours(site) && strcmp(function, "serve_request") != 0)
			ck_assert_msg(!strcmp(found, "same"), "%s: %s", function, found);
	}
	json_decref(diff);
}

static void check_text(const char *calm, const char *leaking)
{
	char *out;
	ck_assert_int_eq(analyze((const char *[]){"diff", calm, leaking, NULL}, &out, NULL), 0);
	const char *first = strstr(out, "  total");
	ck_assert_ptr_nonnull(first);
	first = strchr(first, '\n') + 1;
	ck_assert_msg(
		strncmp(first, "  grown", 7) == 0 || strncmp(first, "  new", 5) == 0, "%s", out);
	const char *site = strstr(first, "open_session"), *end = strchr(first, '\n');
	ck_assert_msg(site && site < end, "%s", out);
	free(out);
	ck_assert_int_eq(
		analyze((const char *[]){"trend", calm, calm, leaking, NULL}, &out, NULL), 0);
	ck_assert_msg(strstr(out, "open_session"), "%s", out);
	free(out);
}

static void check_exceeds(const char *const words[])
{
	HT_FREED char *out, *err;
	const int status = analyze(words, &out, &err);
	ck_assert_msg(status == EXCEEDED, "%d: %s%s", status, out, err);
	ck_assert_str_eq(err, "");
	ck_assert_msg(line_count(out) == 1, "not one line: %s", out);
	ck_assert_msg(strstr(out, " exceeded: "), "%s", out);
	if (strstr(out, "--max-growth"))
		ck_assert_msg(
			strstr(out, " in open_session (") && strstr(out, "service.c:"), "%s", out);
}

static void check_passes(const char *const words[])
{
	HT_FREED char *out, *err;
	const int status = analyze(words, &out, &err);
	ck_assert_msg(status == 0 && line_count(out) == 1, "%d: %s%s", status, out, err);
	/* Some seconds may be too few to judge growth. */
	ck_assert_msg(!*err || strstr(err, "--max-growth cannot be judged"), "%s", err);
	ck_assert_ptr_nonnull(strstr(out, "no threshold exceeded: "));
}

HT_TEST(a_leak_in_the_second_run)
{
	const uint64_t seed = sample_seed(1);
	char *calm = record(seed, "0", 6000), *leaking = record(seed + 1, "20", 12000);
	check_diff(calm, leaking, "grown");
	check_text(calm, leaking);
	check_exceeds((const char *[]){"check", leaking, "--max-growth", "5M/min", NULL});
	check_exceeds((const char *[]){"check", leaking, "--max-outstanding", "3M", NULL});
	check_exceeds((const char *[]){
		"check", leaking, "--baseline", calm, "--max-increase", "20%", NULL});
	check_passes((const char *[]){"check", leaking, "--max-growth", "100M/min", NULL});
	check_passes((const char *[]){"check", calm, "--max-growth", "100k/min",
		"--max-outstanding", "3M", "--baseline", leaking, "--max-increase", "5%", NULL});
}

/* --- no change ---------------------------------------------------------------------------------
 */

static void check_no_change(const char *old, const char *new)
{
	json_t *diff = diff_of(old, new), *site;
	size_t index;
	json_array_foreach(report_at(diff, "sites"), index, site)
	{
		const char *function = json_string_value(json_object_get(site, "function"));
		/* A few blocks of fill_cache are live at any time, and their number varies by
		 * chance. */
		if (is_ours(site) && strcmp(function, "fill_cache") == 0)
			ck_assert_msg(!strcmp(report_text(site, "change"), "same"), "%s: %s",
				function, report_text(site, "change"));
	}
	json_decref(diff);
	check_passes((const char *[]){"check", new, "--baseline", old, "--max-growth", "100k/min",
		"--max-outstanding", "4M", "--max-increase", "10%", NULL});
}

HT_TEST(the_same_program_passes_ten_times)
{
	static const unsigned ms[] = {2000, 5000, 3000};
	char *trace[10];
	const uint64_t seed = sample_seed(1);
	for (unsigned i = 0; i < HT_ARRAY_SIZE(trace); i++)
		trace[i] = record(seed + i, "0", ms[i % HT_ARRAY_SIZE(ms)]);
	for (unsigned i = 0; i < HT_ARRAY_SIZE(trace); i++)
		check_no_change(trace[i], trace[(i + 1) % HT_ARRAY_SIZE(trace)]);
}

/* --- wrong use ---------------------------------------------------------------------------------
 */

static void check_refused(const char *const words[], int want, const char *reason)
{
	HT_FREED char *out, *err;
	const int status = analyze(words, &out, &err);
	ck_assert_msg(status == want, "%s: %d instead of %d: %s", words[0], status, want, err);
	ck_assert_msg(line_count(err) == 1 && strstr(err, reason), "no \"%s\": %s", reason, err);
	ck_assert_str_eq(out, "");
}

HT_TEST(wrong_use)
{
	char *trace = record(1, "0", 100), *no_trace = tmpdir_path("nonsense.htap");
	FILE *file = fopen(no_trace, "we");
	ck_assert(file && fputs("no trace, but long enough to be one\n", file) >= 0 &&
		  fclose(file) == 0);
	check_refused((const char *[]){"check", trace, NULL}, 2, "no threshold is given");
	check_refused((const char *[]){"check", trace, "--max-growth", "fast", NULL}, 2,
		"--max-growth fast: ");
	check_refused((const char *[]){"check", trace, "--max-growth", "1M/fortnight", NULL}, 2,
		"a rate ends with");
	check_refused((const char *[]){"check", trace, "--max-increase", "5%", NULL}, 2,
		"needs --baseline");
	check_refused((const char *[]){"check", trace, "--baseline", trace, "--max-increase",
			      "0x5%", NULL},
		2, "--max-increase 0x5%: ");
	check_refused((const char *[]){"check", trace, "--baseline", "/none.htap", "--max-increase",
			      "5%", NULL},
		1, "cannot open /none.htap");
	check_refused((const char *[]){"check", trace, "--baseline", no_trace, "--max-increase",
			      "5%", NULL},
		9, no_trace);
	check_refused((const char *[]){"diff", no_trace, trace, NULL}, 9, no_trace);
	check_refused((const char *[]){"diff", trace, no_trace, NULL}, 9, no_trace);
	check_refused((const char *[]){"diff", trace, NULL}, 2, "trace file is missing");
	check_refused((const char *[]){"diff", "/none.htap", trace, NULL}, 1, "/none.htap");
	check_refused((const char *[]){"trend", trace, NULL}, 2, "trend");
	check_refused((const char *[]){"trend", trace, no_trace, NULL}, 9, no_trace);
}

HT_SUITE_WAITING("integration/compare", a_leak_in_the_second_run, the_same_program_passes_ten_times)
