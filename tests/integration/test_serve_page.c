/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of heaptap serve in a browser: its figures equal those of the commands, for one trace
 * and for a folder from which traces are chosen and compared.
 */
#include <jansson.h>
#include <stdlib.h>

#include "tests/support/ht_check.h"
#include "tests/support/http.h"
#include "tests/support/report.h"
#include "tests/support/smalltrace.h"

#define BROWSE_MS 180000
#define PYTHON	  "/usr/bin/python3" /* Debian's, which has Debian's selenium */

/* Runs served.py on the server's page, and parses its output. */
static json_t *browse(const struct http *http, const char *what)
{
	HT_FREED char *out, *err;
	int status = run_program(
		(const char *[]){PYTHON, "tests/page/served.py", what, http->address, NULL},
		BROWSE_MS, &out, &err);
	ck_assert_msg(status == 0, "%s", err);
	json_t *seen = report_parse(out);
	ck_assert_uint_eq(json_array_size(report_at(seen, "console")), 0);
	return seen;
}

/* Each figure of the page must equal that of the summary at `path`. */
static void check_totals(const struct http *http, const json_t *totals, const char *path)
{
	json_t *answer = http_json(http, path, 200), *value;
	const char *name;
	ck_assert_uint_ge(json_object_size(totals), 12);
	json_object_foreach((json_t *)totals, name, value) ck_assert_msg(
		json_number_value(value) ==
			json_number_value(json_object_get(report_at(answer, "totals"), name)),
		"%s: %s", path, name);
	json_decref(answer);
}

HT_TEST(the_page_shows_the_same_numbers)
{
	struct http http;
	char *trace = smalltrace_make("one.htap", 3);
	if (!http_has_browser() || !http_start(&http, (const char *[]){trace, NULL}))
		return;
	json_t *seen = browse(&http, "look");
	check_totals(&http, report_at(seen, "totals"), "/api/v1/summary");
	json_decref(seen);
	free(trace);
	http_stop(&http);
}

/* The page's differences and totals must equal those of heaptap diff. */
static void check_diff(const struct http *http, const json_t *shown)
{
	json_auto_t *answer = http_json(http, "/api/v1/diff?base=0&trace=1", 200);
	const json_t *traces = json_object_get(answer, "traces");
	for (size_t i = 0; i < 2; i++)
		ck_assert_uint_eq(
			(uint64_t)json_number_value(json_array_get(report_at(shown, "total"), i)),
			(uint64_t)(json_number_value(json_object_get(
					   json_array_get(traces, i), "per_minute")) +
				   0.5));
	ck_assert_uint_eq(report_u64(shown, "sites"), report_u64(answer, "sites_total"));
}

static void check_trend(const struct http *http, const json_t *shown)
{
	json_auto_t *answer = http_json(http, "/api/v1/trend", 200);
	ck_assert_uint_eq(report_u64(shown, "traces"), 3);
	ck_assert_uint_eq(report_u64(shown, "sites"), report_u64(answer, "sites_total"));
	ck_assert_str_eq(report_text(shown, "first"),
		report_text(json_array_get(json_object_get(answer, "sites"), 0), "function"));
}

HT_TEST(a_folder_is_chosen_from_compared_and_followed)
{
	struct http http;
	char *one = smalltrace_make("one.htap", 3), *two = smalltrace_make("two.htap", 5),
	     *three = smalltrace_make("three.htap", 9);
	if (!http_has_browser() || !http_start(&http, (const char *[]){one, two, three, NULL}))
		return;
	json_t *seen = browse(&http, "folder");
	check_totals(&http, report_at(seen, "first"), "/api/v1/summary");
	check_totals(&http, report_at(seen, "second"), "/api/v1/summary?trace=1");
	check_totals(&http, report_at(seen, "third"), "/api/v1/summary?trace=2");
	check_totals(&http, report_at(seen, "back"), "/api/v1/summary?trace=1");
	ck_assert_str_eq(report_text(seen, "view"), "trend");
	check_diff(&http, report_at(seen, "diff"));
	check_trend(&http, report_at(seen, "trend"));
	json_decref(seen);
	free(one);
	free(two);
	free(three);
	http_stop(&http);
}

HT_SUITE("integration/serve_page")
