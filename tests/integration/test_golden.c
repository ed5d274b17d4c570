/* SPDX-License-Identifier: Apache-2.0
 *
 * Traces of released versions must give the same figures in all later versions. Next to each trace
 * of tests/golden, NAME.json holds a part of the output of `report --json --limit 3` at that time.
 * Later versions may add members to the report, but must not change the stored ones. The files are
 * never written again; a new version adds its own.
 */
#include <dirent.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/ht_check.h"
#include "tests/support/run.h"

#define GOLDEN	   "tests/golden"
#define TRACE_END  ".htap"
#define TRACES_MIN 3 /* release 0.1: C (a pause, a mark, a settle time), JavaScript, a sample */

static json_t *report_of(const char *trace)
{
	HT_FREED char *out, *err;
	json_error_t error;
	int status = run_program((const char *[]){run_built("heaptap"), "report", "--json",
					 "--limit", "3", trace, NULL},
		60000, &out, &err);
	ck_assert_msg(status == 0 && !*err, "%s: %d %s", trace, status, err);
	json_t *report = json_loads(out, 0, &error);
	ck_assert_msg(report, "%s: %s", trace, error.text);
	return report;
}

/* Each member of the stored report must be in the new report, with the same value. */
static void check_value(const char *where, const json_t *stored, const json_t *found)
{
	const char *name;
	json_t *member;
	size_t i;
	if (json_is_object(stored)) {
		json_object_foreach((json_t *)stored, name, member)
		{
			char inner[512];
			snprintf(inner, sizeof(inner), "%s.%s", where, name);
			check_value(inner, member, json_object_get(found, name));
		}
		return;
	}
	if (json_is_array(stored)) {
		ck_assert_msg(
			json_array_size(stored) == json_array_size(found), "%s: length", where);
		json_array_foreach((json_t *)stored, i, member)
			check_value(where, member, json_array_get(found, i));
		return;
	}
	HT_FREED char *was = json_dumps(stored, JSON_ENCODE_ANY);
	HT_FREED char *is = found ? json_dumps(found, JSON_ENCODE_ANY) : NULL;
	ck_assert_msg(
		is && strcmp(was, is) == 0, "%s: %s, was %s", where, is ? is : "missing", was);
}

HT_TEST(traces_of_released_versions_keep_their_figures)
{
	DIR *dir = opendir(GOLDEN);
	const struct dirent *entry;
	int traces = 0;
	ck_assert_ptr_nonnull(dir);
	while ((entry = readdir(dir))) {
		const char *end = strstr(entry->d_name, TRACE_END);
		if (!end)
			continue;
		char trace[512], figures[512];
		json_error_t error;
		snprintf(trace, sizeof(trace), GOLDEN "/%s", entry->d_name);
		snprintf(figures, sizeof(figures), GOLDEN "/%.*s.json", (int)(end - entry->d_name),
			entry->d_name);
		json_t *stored = json_load_file(figures, 0, &error);
		ck_assert_msg(stored, "%s: %s", figures, error.text);
		ck_assert(json_object_get(stored, "totals"));
		json_t *found = report_of(trace);
		check_value(entry->d_name, stored, found);
		json_decref(stored);
		json_decref(found);
		traces++;
	}
	closedir(dir);
	ck_assert_int_ge(traces, TRACES_MIN);
}

HT_SUITE("integration/golden")
