/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap html: the page of a trace computes what the report prints, in node and in a browser, for
 * the whole window and for parts of it; it makes no network request, and each name of the trace
 * stays plain text.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/ht_check.h"
#include "tests/support/report.h"
#include "tests/support/run.h"
#include "tests/support/tap.h"
#include "tests/support/tmpdir.h"
#include "tests/support/tracebuild.h"
#include "tests/support/victim.h"

#define ANSWER_MS 60000
#define LOAD_MS	  90000
#define BROWSE_MS 300000
#define PYTHON	  "/usr/bin/python3" /* Debian's, which has Debian's selenium */
#define ROUNDS	  300u
#define VIEWS	  12u

/* Needs a build with libjs-dygraphs; returns the page, malloc'd, or NULL where there is none. */
static char *make_page(const char *trace)
{
	char *page = tmpdir_path("page.html"), *words;
	int status = run_program(
		(const char *[]){run_built("heaptap"), "html", trace, "-f", "-o", page, NULL},
		ANSWER_MS, NULL, &words);
	if (status == 3 && strstr(words, "libjs-dygraphs")) {
		printf("skipped: html: this build has no libjs-dygraphs\n");
		free(page);
		page = NULL;
	} else {
		ck_assert_msg(status == 0, "exit %d: %s", status, words);
	}
	free(words);
	return page;
}

/* --- against the report ------------------------------------------------------------------------
 */

/* The report of a window {from_ms, to_ms}; null: the start or the end of the trace. */
static json_t *report_of(const char *trace, const json_t *window)
{
	char from[40], to[40], *out, *words;
	const char *argv[12] = {run_built("heaptap"), "report", "--json", "--limit", "1", trace};
	size_t count = 6;
	const json_t *from_ms = json_object_get(window, "from_ms");
	const json_t *to_ms = json_object_get(window, "to_ms");
	snprintf(from, sizeof(from), "+%.0fms", json_number_value(from_ms));
	snprintf(to, sizeof(to), "+%.0fms", json_number_value(to_ms));
	if (!json_is_null(from_ms)) {
		argv[count++] = "--from";
		argv[count++] = from;
	}
	if (!json_is_null(to_ms)) {
		argv[count++] = "--to";
		argv[count++] = to;
	}
	const int status = run_program(argv, ANSWER_MS, &out, &words);
	ck_assert_msg(status == 0, "exit %d: %s", status, words);
	json_t *report = report_parse(out);
	free(words);
	free(out);
	return report;
}

/* The path in the report of a metric's total. */
static const char *total_of(const char *metric)
{
	static const char *const names[][2] = {{"outstanding", "totals.outstanding_bytes"},
		{"growth", "totals.growth_bytes"}, {"live", "totals.live_bytes"},
		{"allocated", "totals.allocated_bytes"}, {"calls", "totals.allocations"},
		{"freed", "totals.freed_bytes"}};
	for (size_t i = 0; i < HT_ARRAY_SIZE(names); i++)
		if (strcmp(names[i][0], metric) == 0)
			return names[i][1];
	ck_abort_msg("no total for %s", metric);
	return NULL;
}

/* Counts the sums, one for each view and metric, that equal the report's total. `must`: fails the
 * test if one does not. */
static size_t count_right_sums(const json_t *report, const json_t *sums, bool must)
{
	size_t index, right = 0;
	json_t *one;
	json_array_foreach(sums, index, one)
	{
		const json_t *expected = report_at(report, total_of(report_text(one, "metric")));
		const double sum = json_number_value(report_at(one, "sum"));
		const bool is_right = sum == json_number_value(expected);
		right += is_right;
		ck_assert_msg(!must || is_right, "%s of %s is %.0f, in the report %.0f",
			report_text(one, "metric"), report_text(one, "view"), sum,
			json_number_value(expected));
	}
	return right;
}

/* Compares each kind of memory in each step of the timeline. */
static void check_memory(const json_t *report, const json_t *memory)
{
	const char *kind;
	json_t *sum, *step;
	json_object_foreach((json_t *)memory, kind, sum)
	{
		double expected = 0;
		size_t index;
		json_array_foreach(report_at(report, "timeline"), index, step) expected +=
			json_number_value(json_object_get(step, kind));
		ck_assert_msg(expected == json_number_value(sum),
			"%s adds up to %.0f, in the report %.0f", kind, json_number_value(sum),
			expected);
	}
	ck_assert_uint_eq(json_object_size(memory), 7);
}

static void check_window(const char *trace, const json_t *window)
{
	json_auto_t *report = report_of(trace, window);
	const json_t *totals = report_at(window, "totals");
	const char *name;
	json_t *value;
	size_t index, figures = 0;
	json_object_foreach((json_t *)totals, name, value)
	{
		const json_t *expected = json_object_get(report_at(report, "totals"), name);
		ck_assert_msg(expected && json_is_null(expected) == json_is_null(value) &&
				      json_number_value(expected) == json_number_value(value),
			"%s is %.0f, in the report %.0f", name, json_number_value(value),
			json_number_value(expected));
		figures++;
	}
	ck_assert_uint_eq(figures, 15);
	json_array_foreach(report_at(window, "rootSums"), index, value) ck_assert_uint_eq(
		(uint64_t)json_number_value(value), report_u64(report, "totals.outstanding_bytes"));
	const json_t *sums = json_object_get(window, "viewSums");
	if (json_object_get(window, "memory"))
		check_memory(report, report_at(window, "memory"));
	if (sums)
		ck_assert_uint_ge(count_right_sums(report, sums, true), VIEWS - 1);
}

/* Runs the page's own code in node for several windows, and compares its sums with the report. */
static void check_sums(const char *trace, const char *page, size_t least_windows)
{
	HT_FREED char *out;
	size_t index;
	json_t *window;
	ck_assert_int_eq(run_program((const char *[]){"node", "tests/page/sums.js", page, NULL},
				 ANSWER_MS, &out, NULL),
		0);
	json_auto_t *windows = report_parse(out);
	ck_assert_uint_ge(json_array_size(windows), least_windows);
	json_array_foreach(windows, index, window) check_window(trace, window);
}

/* --- in a browser ------------------------------------------------------------------------------
 */

static bool has_browser(void)
{
	static const char *const needed[] = {"/usr/bin/chromium", "/usr/bin/chromedriver",
		"/usr/lib/python3/dist-packages/selenium"};
	for (size_t i = 0; i < HT_ARRAY_SIZE(needed); i++)
		if (access(needed[i], R_OK) < 0) {
			printf("skipped: html: the page in a browser: %s is not there\n",
				needed[i]);
			return false;
		}
	return true;
}

static void check_quiet(const json_t *seen)
{
	char *console = json_dumps(report_at(seen, "console"), 0);
	char *requests = json_dumps(report_at(seen, "requests"), 0);
	ck_assert_msg(strcmp(console, "[]") == 0, "on the console: %.600s", console);
	ck_assert_msg(strcmp(requests, "[]") == 0, "asked for: %.600s", requests);
	free(console);
	free(requests);
	ck_assert(json_is_false(report_at(seen, "isHarmed")));
	ck_assert_uint_eq(report_u64(seen, "foreign"), 0);
	ck_assert_uint_eq(report_u64(seen, "scripts"), 3);
}

static void check_views(const json_t *seen)
{
	const char *name;
	json_t *text;
	ck_assert_uint_eq(json_object_size(report_at(seen, "views")), VIEWS);
	json_object_foreach((json_t *)report_at(seen, "views"), name, text) ck_assert_msg(
		json_string_length(text) > 20, "%s: %s", name, json_string_value(text));
}

/* Checks what the browser test saw when it used pointer, keys, search and a small screen. */
static void check_hands(const json_t *seen)
{
	ck_assert_ptr_nonnull(strstr(report_text(seen, "search.all"), "100.0 % of all"));
	ck_assert_ptr_nonnull(strstr(report_text(seen, "search.none"), "0 frames match: 0 B"));
	ck_assert_ptr_nonnull(strstr(report_text(seen, "search.bad"), "not a regular expression"));
	ck_assert_uint_gt(report_u64(seen, "keys.zoomed"), 0);
	ck_assert_uint_eq(report_u64(seen, "keys.reset"), 0);
	ck_assert_uint_gt(report_u64(seen, "keys.moved"), 0);
	ck_assert_uint_eq(report_u64(seen, "keys.length"), 0);
	ck_assert(json_is_true(report_at(seen, "keys.isInAddress")));
	ck_assert_ptr_nonnull(strstr(report_text(seen, "table"), "100.0 %"));
	ck_assert_uint_le(report_u64(seen, "small.width"), 390);
	ck_assert_uint_lt(report_u64(seen, "small.headline"), 720);
	ck_assert_str_eq(report_text(seen, "small.ground"), "rgb(20, 24, 29)");
	ck_assert_str_eq(report_text(seen, "small.chosen"), "rgb(245, 246, 247)");
}

/* Checks the tree, the filters, the browser's back button, sorting and the exported table. */
static void check_tools(const json_t *seen)
{
	const json_t *counts = report_at(seen, "tree.counts");
	const double closed = json_number_value(json_array_get(counts, 1));
	ck_assert(closed == 1 && json_number_value(json_array_get(counts, 2)) > 1);
	ck_assert_str_eq(report_text(seen, "tree.level"), "2");
	ck_assert_str_eq(report_text(seen, "tree.view"), "functions");
	ck_assert_ptr_nonnull(strstr(report_text(seen, "tree.callers"), "Who calls it"));
	ck_assert_uint_gt(report_u64(seen, "filters.only"), 0);
	ck_assert_uint_eq(report_u64(seen, "filters.only") + report_u64(seen, "filters.without"),
		report_u64(seen, "filters.all"));
	ck_assert_ptr_nonnull(strstr(report_text(seen, "filters.chip"), "only through "));
	ck_assert(json_is_true(report_at(seen, "filters.isEmpty")));
	ck_assert(json_is_true(report_at(seen, "isBack")));
	ck_assert_uint_eq(json_array_size(report_at(seen, "saved")), 2);
	ck_assert(json_is_true(report_at(seen, "sort.down")));
	ck_assert(json_is_true(report_at(seen, "sort.up")));
	ck_assert_uint_eq(report_u64(seen, "taken.sum"), report_u64(seen, "filters.all"));
	ck_assert_ptr_nonnull(strstr(report_text(seen, "taken.first"), "Outstanding"));
	ck_assert_uint_ge(json_array_size(report_at(seen, "taken.kinds")), 18);
	ck_assert_uint_le(json_array_size(report_at(seen, "taken.tags")), 7);
}

static void check_shortcuts(const json_t *seen)
{
	ck_assert_str_eq(report_text(seen, "shortcuts.view"), "tree");
	ck_assert_str_eq(report_text(seen, "shortcuts.metric"), "growth");
	ck_assert(json_is_true(report_at(seen, "shortcuts.half")));
	ck_assert_uint_gt(report_u64(seen, "shortcuts.peak"), 0);
	ck_assert(json_is_true(report_at(seen, "shortcuts.isWhole")));
	ck_assert_ptr_nonnull(strstr(report_text(seen, "shortcuts.list"), "next metric"));
	ck_assert_str_eq(report_text(seen, "shortcuts.focus"), "search");
}

/* In the page one cell has one byte and one call too many, so no view may have the report's
 * sums. */
static void check_corrupted(const char *trace, const json_t *seen)
{
	json_auto_t *report = report_of(trace, json_array_get(report_at(seen, "windows"), 0));
	const json_t *sums = report_at(seen, "corrupted");
	ck_assert_uint_eq(json_array_size(sums), 2 * (VIEWS - 1));
	ck_assert_uint_eq(count_right_sums(report, sums, false), 0);
}

static json_t *browse(const char *page, const char *what)
{
	HT_FREED char *out, *words;
	int status =
		run_program((const char *[]){PYTHON, "tests/page/browser.py", page, what, NULL},
			BROWSE_MS, &out, &words);
	ck_assert_msg(status == 0, "exit %d: %s", status, words);
	json_t *seen = report_parse(out);
	return seen;
}

static void check_browser(const char *trace, const char *page)
{
	size_t index;
	json_t *window;
	if (!has_browser())
		return;
	json_auto_t *seen = browse(page, NULL);
	check_quiet(seen);
	check_views(seen);
	check_hands(seen);
	check_tools(seen);
	check_shortcuts(seen);
	check_corrupted(trace, seen);
	ck_assert_uint_eq(json_array_size(report_at(seen, "windows")), 3);
	json_array_foreach(report_at(seen, "windows"), index, window)
	{
		/* The second window was selected with the brush, and has bounds. */
		ck_assert(json_is_null(report_at(window, "from_ms")) == (index != 1));
		check_window(trace, window);
	}
}

/* --- traces ------------------------------------------------------------------------------------
 */

static uint64_t rounds_of(struct victim *victim)
{
	HT_FREED char *answer = victim_ask(victim, "count", ANSWER_MS);
	uint64_t rounds = strtoull(answer, NULL, 10);
	return rounds;
}

/* Checks that the page has lines of the target's source file. */
static void check_source(const char *trace)
{
	char *page = tmpdir_path("source.html"), *out, *words;
	ck_assert_int_eq(
		run_program((const char *[]){run_built("heaptap"), "html", trace, "--embed-source",
				    "--source-dir", ".", "-o", page, NULL},
			ANSWER_MS, NULL, NULL),
		0);
	const int status = run_program((const char *[]){"node", "tests/page/sourced.js", page,
					       "tests/targets/cxx.cc", NULL},
		ANSWER_MS, &out, &words);
	ck_assert_msg(status == 0 && strcmp(out, "all right\n") == 0, "%s", words);
	free(out);
	free(words);
	free(page);
}

HT_TEST(cxx)
{
	struct victim victim;
	struct tap tap;
	victim_start(&victim, (const char *[]){run_built("tests/targets/cxx"), NULL});
	tap_start(&tap, victim.pid, NULL);
	tap_wait_any(&tap);
	uint64_t until = rounds_of(&victim) + ROUNDS;
	run_until(rounds_of(&victim) >= until, LOAD_MS);
	tap_check_clean(tap_stop(&tap, 0));
	victim_stop(&victim);
	HT_FREED char *page = make_page(tap.trace);
	if (page) {
		check_sums(tap.trace, page, 5);
		check_source(tap.trace);
		check_browser(tap.trace, page);
	}
}

#define HOSTILE                                                                                    \
	"</script><script>harmed = 1</script><img src=x onerror=\"harmed = 1\">'\"&lt;\\"          \
	"\x1b]0;x\x07\xff\xfe\xe2\x80\xae<!--"

static void save(struct tracebuild *build, const char *path)
{
	struct bytes_out bytes = {0};
	tracebuild_slurp(tracebuild_finish(build), &bytes);
	FILE *file = fopen(path, "we");
	ck_assert(file && fwrite(bytes.data, bytes.length, 1, file) == 1 && fclose(file) == 0);
	bytes_out_deinit(&bytes);
}

/* Writes a trace where all names are hostile, and blocks are allocated and freed over 60 ms.
 * `more`: extra bytes of each second block. `sample_bytes`: the capture's sampling rate; 0: not a
 * sample. */
static void build_hostile(const char *path, uint64_t more, uint64_t sample_bytes)
{
	struct tracebuild build;
	struct eventbuild events = {0};
	char name[50000];
	memset(name, 'x', sizeof(name));
	memcpy(name, HOSTILE, sizeof(HOSTILE) - 1);
	name[sizeof(name) - 1] = '\0';
	tracebuild_init(&build);
	build.sample_bytes = sample_bytes;
	tracebuild_start(&build, 4242, 1000000, 1000000);
	tracebuild_module(&build, 1, HOSTILE, "\"id\n", 0x400000, 0x500000);
	tracebuild_thread(&build, 100, HOSTILE);
	const uint32_t outer = tracebuild_node(&build, 0, 0x400100);
	const uint32_t leaf = tracebuild_node(&build, outer, 0x400200);
	tracebuild_symbol(&build, 1, 0xff, HOSTILE, HOSTILE, 10);
	tracebuild_symbol(&build, 1, 0x1ff, name, name, 10);
	eventbuild_thread(&events, 100, 0);
	for (uint64_t i = 0; i < 40; i++) {
		const uint64_t at = 1008000 + i * 1008 * 1000;
		eventbuild_alloc(&events, ABI_EVENT_ALLOC, 0, at, 0x10000 + i * 0x100,
			10 + i + (i % 2 ? more : 0), i % 2 && i > more / 10 ? leaf : outer);
		if (i % 3 == 2)
			eventbuild_free(&events, ABI_EVENT_FREE, 0, at + 1008,
				0x10000 + (i - 2) * 0x100, 24);
	}
	tracebuild_events(&build, 0, &events);
	tracebuild_sync(&build, 60000000, 60000000);
	tracebuild_end(&build, REC_END_DURATION, 61000000, 61000000);
	save(&build, path);
	eventbuild_deinit(&events);
	tracebuild_deinit(&build);
}

HT_TEST(hostile_names)
{
	HT_FREED char *trace = tmpdir_path("hostile.htap");
	build_hostile(trace, 0, 0);
	HT_FREED char *page = make_page(trace);
	if (page) {
		check_sums(trace, page, 5);
		check_browser(trace, page);
	}
}

/* --- two traces --------------------------------------------------------------------------------
 */

static void check_compared(const char *page, const char *old, const char *new, const char *metric)
{
	char *out, *words, *printed = tmpdir_path("diff.json");
	ck_assert_int_eq(run_program((const char *[]){run_built("heaptap"), "diff", old, new,
					     "--json", "--limit", "0", "--metric", metric, NULL},
				 ANSWER_MS, &out, NULL),
		0);
	FILE *file = fopen(printed, "we");
	ck_assert(file && fputs(out, file) >= 0 && fclose(file) == 0);
	free(out);
	const int status =
		run_program((const char *[]){"node", "tests/page/compared.js", page, printed, NULL},
			ANSWER_MS, &out, &words);
	ck_assert_msg(status == 0 && strcmp(out, "all right\n") == 0, "%s: %s", metric, words);
	free(out);
	free(words);
	free(printed);
}

/* The view must show the new trace's total and the selected rows. `columns`: those of its table. */
static void check_diff_view(const char *page, const char *columns)
{
	if (!has_browser())
		return;
	json_auto_t *seen = browse(page, "diff");
	check_quiet(seen);
	ck_assert_str_eq(report_text(seen, "view"), "diff");
	ck_assert_ptr_nonnull(strstr(report_text(seen, "traces"), "old.htap"));
	ck_assert_ptr_nonnull(strstr(report_text(seen, "traces"), "new.htap"));
	ck_assert_uint_eq(report_u64(seen, "all"), 2);
	ck_assert_uint_eq(report_u64(seen, "new"), 1);
	ck_assert_ptr_nonnull(strstr(report_text(seen, "text"), "</script><script>harmed"));
	ck_assert(json_is_true(report_at(seen, "isInAddress")));
	ck_assert_uint_le(json_array_size(report_at(seen, "tags")), 6);
	ck_assert_ptr_nonnull(strstr(report_text(seen, "csv"), columns));
	ck_assert_uint_le(report_u64(seen, "small.width"), 390);
}

static void check_comparison(uint64_t sample_bytes, const char *columns)
{
	static const char *const metrics[] = {"outstanding", "allocated", "live", "calls"};
	char *old = tmpdir_path("old.htap"), *new = tmpdir_path("new.htap"), *words;
	char *page = tmpdir_path("diff.html");
	build_hostile(old, 400, sample_bytes);
	build_hostile(new, 0, sample_bytes);
	const int status = run_program((const char *[]){run_built("heaptap"), "html", new, "--diff",
					       old, "-o", page, NULL},
		ANSWER_MS, NULL, &words);
	if (status == 3) {
		printf("skipped: html: a comparison: this build has no libjs-dygraphs\n");
		return;
	}
	ck_assert_msg(status == 0 && !*words, "exit %d: %s", status, words);
	for (size_t i = 0; i < HT_ARRAY_SIZE(metrics); i++)
		check_compared(page, old, new, metrics[i]);
	check_diff_view(page, columns);
}

HT_TEST(a_comparison)
{
	check_comparison(0, "change,delta,old,new,name");
}

HT_TEST(a_comparison_of_samples)
{
	check_comparison(4096, "change,delta,delta_bound,old,old_bound,new,new_bound,name");
}

/* --- the file, and the build -------------------------------------------------------------------
 */

HT_TEST(a_page_is_whole_or_not_there)
{
	char *trace = tmpdir_path("some.htap"), *out, *words;
	struct stat status;
	build_hostile(trace, 0, 0);
	char *page = make_page(trace);
	if (!page)
		return;
	ck_assert(stat(page, &status) == 0 && (status.st_mode & 0777) == 0600);
	/* An existing file is not overwritten. */
	ck_assert_int_eq(
		run_program((const char *[]){run_built("heaptap"), "html", trace, "-o", page, NULL},
			ANSWER_MS, &out, &words),
		2);
	ck_assert_ptr_nonnull(strstr(words, "exists; -f replaces it"));
	ck_assert_int_eq(run_program((const char *[]){run_built("heaptap"), "html", trace, "-f",
					     "-o", trace, NULL},
				 ANSWER_MS, &out, &words),
		2);
	ck_assert_ptr_nonnull(strstr(words, "is the trace itself"));
	/* A trace that cannot be read leaves no file. */
	char *none = tmpdir_path("none.html");
	ck_assert_int_eq(run_program((const char *[]){run_built("heaptap"), "html",
					     run_built("heaptap"), "-o", none, NULL},
				 ANSWER_MS, &out, &words),
		9);
	ck_assert_int_lt(access(none, F_OK), 0);
	ck_assert_int_eq(
		run_program((const char *[]){"/bin/sh", "-c", "\"$0\" html \"$1\" -o - >/dev/full",
				    run_built("heaptap"), trace, NULL},
			ANSWER_MS, &out, &words),
		1);
	ck_assert_ptr_nonnull(strstr(words, "cannot write standard output: "));
}

static off_t embedded_bytes(const char *directory, const char *dygraphs)
{
	struct stat status;
	char path[4200];
	ck_assert_int_eq(run_program((const char *[]){"scripts/embed-page", directory, dygraphs,
					     "scripts/embed-page", NULL},
				 ANSWER_MS, NULL, NULL),
		0);
	snprintf(path, sizeof(path), "%s/head.html", directory);
	ck_assert_int_eq(stat(path, &status), 0);
	return status.st_size;
}

/* A build without the package has no page, and the same files give the same page. */
HT_TEST(what_is_built_in)
{
	char *none = tmpdir_path("none"), *one = tmpdir_path("one"), *two = tmpdir_path("two");
	const char *dygraphs = "/usr/share/javascript/dygraphs";
	ck_assert_int_eq(embedded_bytes(none, "/nonexistent"), 0);
	if (access(dygraphs, R_OK) < 0) {
		printf("skipped: html: what is built in: %s is not there\n", dygraphs);
		return;
	}
	ck_assert_int_gt(embedded_bytes(one, dygraphs), 0);
	ck_assert_int_gt(embedded_bytes(two, dygraphs), 0);
	ck_assert_int_eq(
		run_program((const char *[]){"diff", "-r", one, two, NULL}, ANSWER_MS, NULL, NULL),
		0);
}

HT_TEST(the_code_of_the_page)
{
	static const char *const tests[] = {"tests/page/model_test.js", "tests/page/stacks_test.js",
		"tests/page/state_test.js", "tests/page/suspects_test.js"};
	for (size_t i = 0; i < HT_ARRAY_SIZE(tests); i++) {
		char *out, *words;
		int status = run_program(
			(const char *[]){"node", tests[i], NULL}, ANSWER_MS, &out, &words);
		ck_assert_msg(status == 0, "%s", words);
		ck_assert_str_eq(out, "all right\n");
		free(out);
		free(words);
	}
}

HT_SUITE("integration/html")
