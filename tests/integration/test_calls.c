/* SPDX-License-Identifier: Apache-2.0
 *
 * tree, callers, flame and source as a user runs them: on a program with threads, in a browser, and
 * with source files that exist. test_formats compares their sums with the report, on more
 * programs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/browser.h"
#include "tests/support/faces.h"
#include "tests/support/files.h"
#include "tests/support/ht_check.h"
#include "tests/support/report.h"
#include "tests/support/run.h"
#include "tests/support/tap.h"
#include "tests/support/tmpdir.h"
#include "tests/support/victim.h"

#define ANSWER_MS 60000

static uint64_t rounds_of(struct victim *victim)
{
	HT_FREED char *answer = victim_ask(victim, "count", ANSWER_MS);
	const uint64_t rounds = strtoull(answer, NULL, 10);
	return rounds;
}

/* A trace of a C++ program with threads. */
static const char *record(void)
{
	static struct tap tap;
	struct victim victim;
	victim_start(&victim, (const char *[]){run_built("tests/targets/cxx"), NULL});
	tap_start(&tap, victim.pid, NULL);
	tap_wait_any(&tap);
	const uint64_t until = rounds_of(&victim) + 100;
	run_until(rounds_of(&victim) >= until, ANSWER_MS);
	tap_check_clean(tap_stop(&tap, 0));
	victim_stop(&victim);
	return tap.trace;
}

static int run_heaptap(const char *const words[], char **ret_out, char **ret_err)
{
	const char *argv[16] = {run_built("heaptap")};
	for (size_t i = 0; words[i]; i++)
		argv[i + 1] = words[i];
	return run_program(argv, ANSWER_MS, ret_out, ret_err);
}

static char *slurp(const char *path)
{
	char *out;
	ck_assert_int_eq(
		run_program((const char *[]){"cat", path, NULL}, ANSWER_MS, &out, NULL), 0);
	return out;
}

static void check_has(const char *text, const char *part)
{
	ck_assert_msg(strstr(text, part) != NULL, "no \"%s\" in %.3000s", part, text);
}

HT_TEST(a_program_with_threads)
{
	const char *trace = record();
	char *tree = faces_run(
		(const char *[]){"tree", trace, "--metric", "allocated", "--no-pager", NULL});
	check_has(tree, " fill");
	check_has(tree, "bytes allocated in the window");
	free(tree);
	char *callers = faces_run(
		(const char *[]){"callers", trace, "fill", "--metric", "allocated", NULL});
	check_has(callers, "run()  cxx.cc");
	check_has(callers, "cxx.cc:");
	free(callers);
	faces_check(trace);
}

HT_TEST(lines_of_source)
{
	const char *trace = record();
	char *source = faces_run((const char *[]){"source", trace, "fill", "--metric", "calls",
		"--source-dir", "tests/targets", NULL});
	check_has(source, "tests/targets/cxx.cc");
	const char *line = strstr(source, "map[key].push_back(static_cast<int>(i));");
	ck_assert_ptr_nonnull(line);
	while (line > source && line[-1] != '\n')
		line--;
	char *end;
	ck_assert_uint_gt(strtoull(line, &end, 10), 0);
	free(source);
}

HT_TEST(several_functions_are_listed)
{
	const char *trace = record();
	char *out, *err;
	const int status =
		run_heaptap((const char *[]){"callers", trace, "un", "--metric", "allocated", NULL},
			&out, &err);
	ck_assert_int_eq(status, 2);
	check_has(out, "run()");
	check_has(out, "count");
	check_has(err, "functions; give the whole name of one");
	free(out);
	free(err);
	ck_assert_int_eq(run_heaptap((const char *[]){"callers", trace, "un", "--json", "--metric",
					     "allocated", NULL},
				 &out, NULL),
		2);
	json_t *list = report_parse(out);
	ck_assert_uint_gt(json_array_size(report_at(list, "matches")), 1);
	json_decref(list);
	free(out);
	ck_assert_int_eq(
		run_heaptap((const char *[]){"source", trace, "nowhere", NULL}, NULL, &err), 2);
	check_has(err, "heaptap tree lists");
	free(err);
}

HT_TEST(files_are_whole_or_as_they_were)
{
	const char *trace = record();
	char *path = tmpdir_path("out.svg"), *err;
	ck_assert_int_eq(run_heaptap((const char *[]){"flame", trace, "-o", path, "--metric",
					     "lifetime", NULL},
				 NULL, &err),
		2);
	check_has(err, "is a mean");
	ck_assert_int_eq(access(path, F_OK), -1);
	free(err);
	files_write(path, "mine");
	ck_assert_int_eq(
		run_heaptap((const char *[]){"flame", trace, "-o", path, NULL}, NULL, &err), 2);
	check_has(err, "exists; -f replaces it");
	free(err);
	ck_assert_int_eq(run_heaptap((const char *[]){"flame", trace, "-f", "-o", path, "--metric",
					     "lifetime", NULL},
				 NULL, NULL),
		2);
	files_check(path, "mine");
	ck_assert_int_eq(
		run_heaptap((const char *[]){"flame", trace, "-o", trace, "-f", NULL}, NULL, &err),
		2);
	check_has(err, "is the trace itself");
	free(err);
	free(faces_run((const char *[]){"flame", trace, "-f", "-o", path, NULL}));
	HT_FREED char *written = slurp(path);
	char *printed = faces_run((const char *[]){"flame", trace, "-o", "-", NULL});
	ck_assert_str_eq(written, printed);
	free(printed);
	free(path);
}

/* --- in a browser ------------------------------------------------------------------------------
 */

/* Runs after the graph's script, and makes the key presses and clicks of a user. */
static const char hand[] =
	"<script>//<![CDATA[\n"
	"function press(key) {"
	" document.dispatchEvent(new KeyboardEvent('keydown', {key: key})); }\n"
	"function box(name) { return [].filter.call(document.getElementsByClassName('f'),"
	" function (g) { return g.getElementsByTagName('title')[0].textContent"
	".indexOf(name) === 0; })[0]; }\n"
	"function note(name, value) { document.documentElement.setAttribute('data-' + name, value);"
	" }\n"
	"function width(g) { return Number(g.getElementsByTagName('rect')[0]"
	".getAttribute('width')); }\n"
	"var fill = box('fill\\n');\n"
	"note('before', width(fill) < 1100);\n"
	"fill.getElementsByTagName('rect')[0]"
	".dispatchEvent(new MouseEvent('click', {bubbles: true}));\n"
	"note('zoomed', width(fill));\n"
	"note('caller', box('run()').classList.contains('caller'));\n"
	"note('back', document.getElementById('reset').textContent);\n"
	"'/FILL'.split('').forEach(press);\n"
	"note('found', fill.classList.contains('m') && !box('run()').classList.contains('m'));\n"
	"note('sum', document.getElementById('matched').textContent);\n"
	"press('Escape');\n"
	"note('reset', width(fill) < 1100 && !fill.classList.contains('m'));\n"
	/* A match within another one counts once. */
	"'/u'.split('').forEach(press);\n"
	"function get(g, name) { return Number(g.getAttribute('data-' + name)); }\n"
	"var all = [].slice.call(document.getElementsByClassName('m'));\n"
	"var outer = all.filter(function (g) { return !all.some(function (o) {"
	" return get(o, 'd') < get(g, 'd') && get(o, 's') <= get(g, 's') &&"
	" get(o, 's') + get(o, 'v') >= get(g, 's') + get(g, 'v'); }); });\n"
	"var sum = outer.reduce(function (to, g) { return to + get(g, 'v'); }, 0);\n"
	"var share = (100 * sum / get(document.documentElement, 'total')).toFixed(1);\n"
	"note('once', outer.length < all.length &&"
	" document.getElementById('matched').textContent.indexOf(', ' + share + ' %') > 0);\n"
	"//]]></script>\n</svg>";

HT_TEST(a_click_zooms_and_a_search_finds)
{
	if (!browser_is_there("calls: a flame graph"))
		return;
	const char *trace = record();
	HT_FREED char *path = tmpdir_path("hand.svg");
	char *svg = faces_run(
		(const char *[]){"flame", trace, "--metric", "allocated", "-o", "-", NULL});
	char *end = strstr(svg, "</svg>");
	ck_assert_ptr_nonnull(end);
	*end = '\0';
	HT_FREED char *whole;
	ck_assert_int_ge(asprintf(&whole, "%s%s", svg, hand), 0);
	files_write(path, whole);
	HT_FREED char *dump = browser_dump(path);
	check_has(dump, "data-before=\"true\"");
	check_has(dump, "data-zoomed=\"1180\"");
	check_has(dump, "data-caller=\"true\"");
	check_has(dump, "data-back=\"[Esc] whole graph\"");
	check_has(dump, "data-found=\"true\"");
	check_has(dump, "data-sum=\"matched ");
	check_has(dump, "data-reset=\"true\"");
	check_has(dump, "data-once=\"true\"");
	free(svg);
}

HT_SUITE("integration/calls")
