/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON, text and exports of a trace agree with each other, with the counts that the target made
 * itself, and with the output of the programs that read the exports.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/report.h"
#include "tests/support/run.h"
#include "tests/support/tap.h"
#include "tests/support/tmpdir.h"
#include "tests/support/victim.h"

#define PHASE_MS   60000
#define ANALYZE_MS 60000

/* Captures one phase of a ledger. Returns the counts that the ledger made itself. */
static json_t *record(struct tap *tap, const char *threads)
{
	struct victim victim;
	victim_start(&victim, (const char *[]){run_built("tests/targets/ledger"), "-t", threads,
				      "-n", "50000", NULL});
	struct procsnap *before = procsnap_take(victim.pid, PROCSNAP_MASKS_CHANGE);
	tap_start(tap, victim.pid, NULL);
	tap_wait_on(tap, "/ledger");
	HT_FREED char *books = victim_ask(&victim, "go", PHASE_MS);
	tap_check_clean(tap_stop(tap, 0));
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
	json_t *ledger = report_parse(books);
	return ledger;
}

static char *heaptap_output(const char *const arguments[])
{
	const char *argv[10] = {run_built("heaptap")};
	for (size_t i = 0; arguments[i]; i++)
		argv[i + 1] = arguments[i];
	char *out, *err;
	int status = run_program(argv, ANALYZE_MS, &out, &err);
	ck_assert_msg(status == 0, "%s ended with %d: %.1000s", arguments[0], status, err);
	free(err);
	return out;
}

static bool has_rss(const char *trace, uint64_t at_least_bytes)
{
	json_auto_t *report = report_load_begun(trace);
	bool has = report && report_u64(report, "rss.last_bytes") >= at_least_bytes;
	return has;
}

/* The report of a target that allocates by malloc, and then by mmap. */
static json_t *record_growth(unsigned malloc_mib, unsigned mmap_mib)
{
	struct victim victim;
	struct tap tap;
	char hold[32], map[32];
	snprintf(hold, sizeof(hold), "hold %u", malloc_mib);
	snprintf(map, sizeof(map), "map %u", mmap_mib);
	victim_start(&victim, (const char *[]){run_built("tests/targets/actor"), NULL});
	tap_start(&tap, victim.pid, NULL);
	tap_wait_on(&tap, "/actor");
	run_until(has_rss(tap.trace, 1), PHASE_MS);
	free(victim_ask(&victim, hold, PHASE_MS));
	free(victim_ask(&victim, map, PHASE_MS));
	run_until(has_rss(tap.trace, (uint64_t)(malloc_mib + mmap_mib) << 20), PHASE_MS);
	tap_check_clean(tap_stop(&tap, 0));
	victim_stop(&victim);
	return report_load(tap.trace);
}

static bool warns_of_rss(const json_t *report)
{
	size_t index;
	json_t *warning;
	json_array_foreach(report_at(report, "warnings"), index, warning)
	{
		if (strstr(json_string_value(warning), "RSS grew"))
			return true;
	}
	return false;
}

static char *slurp(const char *path)
{
	char *out;
	ck_assert_int_eq(
		run_program((const char *[]){"cat", path, NULL}, ANALYZE_MS, &out, NULL), 0);
	return out;
}

HT_TEST(stacks_sum_up_to_the_totals)
{
	struct tap tap;
	record(&tap, "4");
	json_t *report = report_load(tap.trace), *stack, *thread;
	static const char *const metric[] = {"allocations", "allocated_bytes", "outstanding_blocks",
		"outstanding_bytes", "temporary"};
	for (size_t i = 0; i < HT_ARRAY_SIZE(metric); i++) {
		char path[64];
		snprintf(path, sizeof(path), "totals.%s", metric[i]);
		uint64_t sum = 0;
		size_t index;
		json_array_foreach(report_at(report, "stacks"), index, stack) sum +=
			report_u64(stack, metric[i]);
		ck_assert_msg(sum == report_u64(report, path), "%s: %lu", path, sum);
	}
	uint64_t by_thread = 0;
	size_t index;
	json_array_foreach(report_at(report, "threads"), index, thread) by_thread +=
		report_u64(thread, "allocations");
	ck_assert_uint_eq(by_thread, report_u64(report, "totals.allocations"));
}

HT_TEST(a_limit_limits)
{
	struct tap tap;
	record(&tap, "1");
	char *out = heaptap_output(
		(const char *[]){"report", "--json", "--limit", "3", tap.trace, NULL});
	json_t *report = report_parse(out);
	ck_assert_uint_eq(json_array_size(report_at(report, "stacks")), 3);
	ck_assert_str_eq(report_text(report, "schema"), "heaptap.report/2");
}

HT_TEST(text_says_where_and_how_much)
{
	struct tap tap;
	json_t *ledger = record(&tap, "2");
	char *text = heaptap_output((const char *[]){"report", tap.trace, NULL});
	ck_assert_ptr_nonnull(strstr(text, "ledger"));
	ck_assert_ptr_nonnull(strstr(text, "acquire"));
	ck_assert_ptr_nonnull(strstr(text, "ledger.c:"));
	/* The number of calls, with or without separators between thousands. */
	char expected[32], plain[32];
	snprintf(expected, sizeof(expected), "%lu", report_u64(ledger, "allocations"));
	bool found = false;
	for (const char *at = text; *at && !found; at++) {
		size_t length = 0;
		for (const char *c = at; length < 31 && (strchr("0123456789,' ", *c) && *c); c++)
			if (*c >= '0' && *c <= '9')
				plain[length++] = *c;
		plain[length] = '\0';
		found = !strncmp(plain, expected, strlen(expected));
	}
	ck_assert_msg(found, "no %s in: %.3000s", expected, text);
}

/* Returns the sum of a CSV's column; overwrites `csv`. */
static uint64_t sum_of(char *csv, const char *column)
{
	char *rest = csv, *names = strsep(&rest, "\n"), *line;
	size_t at = 0, index = 0;
	uint64_t sum = 0;
	for (char *name; (name = strsep(&names, ",\r")); at++)
		if (strcmp(name, column) == 0)
			break;
	while ((line = strsep(&rest, "\n")) && *line) {
		char *cell = NULL;
		for (index = 0; index <= at; index++)
			cell = strsep(&line, ",");
		ck_assert_ptr_nonnull(cell);
		sum += strtoull(cell, NULL, 10);
	}
	return sum;
}

/* sum_of splits at commas: columns with figures come before those with names, which may contain
 * commas. */
HT_TEST(tables_sum_up_to_the_totals)
{
	static const char *const by[] = {
		"function", "line", "address", "module", "namespace", "thread", "size", "lifetime"};
	struct tap tap;
	record(&tap, "4");
	json_auto_t *report = report_load(tap.trace);
	const uint64_t allocated = report_u64(report, "totals.allocated_bytes");
	char *csv = heaptap_output((const char *[]){"report", "--csv", tap.trace, NULL});
	ck_assert_uint_eq(sum_of(csv, "allocated_bytes"), allocated);
	free(csv);
	for (size_t i = 0; i < HT_ARRAY_SIZE(by); i++) {
		csv = heaptap_output(
			(const char *[]){"report", "--csv", "--by", by[i], tap.trace, NULL});
		ck_assert_msg(sum_of(csv, "allocated_bytes") == allocated, "%s", by[i]);
		free(csv);
	}
}

HT_TEST(a_page_has_eighty_columns)
{
	struct tap tap;
	record(&tap, "2");
	char *text = heaptap_output((const char *[]){"report", "--stacks", tap.trace, NULL});
	size_t lines = 0;
	bool has_next = false;
	for (char *rest = text, *line; (line = strsep(&rest, "\n")); lines++) {
		ck_assert_msg(strlen(line) <= 80 || strpbrk(line, "\xe2"), "%s", line);
		has_next |= lines < 24 && strncmp(line, "Next: heaptap report ", 21) == 0;
	}
	ck_assert(has_next);
	free(text);
}

HT_TEST(growth_of_rss_that_the_trace_does_not_explain)
{
	json_t *report = record_growth(40, 200);
	ck_assert_int_ge(json_integer_value(report_at(report, "rss.growth_bytes")), 239 << 20);
	ck_assert_int_eq(json_integer_value(report_at(report, "rss.explained_bytes")) >> 20, 40);
	ck_assert(warns_of_rss(report));
}

HT_TEST(collapsed_stacks_sum_up)
{
	struct tap tap;
	json_t *ledger = record(&tap, "2");
	char *path = tmpdir_path("collapsed.txt");
	free(heaptap_output(
		(const char *[]){"export", tap.trace, "--format", "collapsed", "-o", path, NULL}));
	char *text = slurp(path);
	uint64_t sum = 0;
	char *rest = NULL;
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		char *number = strrchr(line, ' ');
		ck_assert_msg(number && strchr(line, ';'), "%s", line);
		sum += strtoull(number, NULL, 10);
	}
	uint64_t outstanding = report_u64(ledger, "outstanding_bytes");
	uint64_t allocated = report_u64(ledger, "allocated_bytes");
	ck_assert_msg(sum == outstanding || sum == allocated, "%lu", sum);
}

HT_TEST(heaptrack_reads_the_export)
{
	struct tap tap;
	json_t *ledger = record(&tap, "1");
	char *path = tmpdir_path("heaptrack.out"), *out, *err;
	free(heaptap_output(
		(const char *[]){"export", tap.trace, "--format", "heaptrack", "-o", path, NULL}));
	int status = run_program(
		(const char *[]){"heaptrack_print", path, NULL}, ANALYZE_MS, &out, &err);
	ck_assert_msg(status == 0, "%d: %.2000s", status, err);
	report_check_amount(
		out, "calls to allocation functions: ", report_u64(ledger, "allocations"));
	report_check_amount(out, "total memory leaked: ", report_u64(ledger, "outstanding_bytes"));
	report_check_amount(
		out, "peak heap memory consumption: ", report_u64(ledger, "peak_bytes"));
	ck_assert_ptr_nonnull(strstr(out, "acquire"));
}

HT_TEST(refuses_other_files)
{
	char *path = tmpdir_path("nonsense.htap"), *err;
	FILE *file = fopen(path, "we");
	ck_assert(file && fputs("this is not a trace, and long enough to be one\n", file) >= 0 &&
		  fclose(file) == 0);
	const char *const no_trace[] = {path, "/dev/null", "/bin/sh"};
	for (size_t i = 0; i < HT_ARRAY_SIZE(no_trace); i++) {
		int status = run_program(
			(const char *[]){run_built("heaptap"), "report", no_trace[i], NULL},
			ANALYZE_MS, NULL, &err);
		ck_assert_msg(status == 9, "%s: %d, %s", no_trace[i], status, err);
		ck_assert_ptr_nonnull(strstr(err, no_trace[i]));
		ck_assert_ptr_eq(strchr(err, '\n'), err + strlen(err) - 1);
	}
}

HT_SUITE("integration/report")
