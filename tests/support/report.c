/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/report.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/run.h"

#define REPORT_MS  120000
#define COMMAND_MS 60000

json_t *report_parse(const char *text)
{
	json_error_t error;
	json_t *root = json_loads(text, 0, &error);
	ck_assert_msg(
		root != NULL, "not JSON (%s, line %d): %.2000s", error.text, error.line, text);
	return root;
}

/* Replaces the frame numbers of each stack by the frames. */
static void expand_frames(const json_t *stacks, const json_t *frames)
{
	size_t index, at;
	json_t *stack, *number;
	json_array_foreach(stacks, index, stack)
	{
		json_t *chain = report_at(stack, "frames");
		json_array_foreach(chain, at, number)
		{
			ck_assert_msg(json_is_integer(number), "a frame is no number");
			json_t *frame = json_array_get(frames, (size_t)json_integer_value(number));
			ck_assert_msg(frame, "no frame %lld", json_integer_value(number));
			json_array_set(chain, at, frame);
		}
	}
}

json_t *report_load_begun(const char *trace)
{
	char *out, *err;
	json_t *report = NULL;
	int status = run_program((const char *[]){run_built("heaptap"), "report", "--json",
					 "--limit", "0", trace, NULL},
		REPORT_MS, &out, &err);
	ck_assert_msg(status == 0 || status == 7 || status == 9, "report of %s ended with %d: %s",
		trace, status, err);
	if (status != 9) {
		report = report_parse(out);
		ck_assert((status == 0) == json_is_true(report_at(report, "capture.complete")));
		const json_t *frames = report_at(report, "frames");
		expand_frames(report_at(report, "stacks"), frames);
		if (!json_is_null(report_at(report, "mappings")))
			expand_frames(report_at(report, "mappings.stacks"), frames);
	}
	free(out);
	free(err);
	return report;
}

json_t *report_load(const char *trace)
{
	json_t *report = report_load_begun(trace);
	ck_assert_msg(report, "%s has no record that can be read", trace);
	return report;
}

json_t *report_run(const char *command, pid_t pid, int status)
{
	char number[16], *out, *err;
	snprintf(number, sizeof(number), "%d", pid);
	int got = run_program(
		(const char *[]){run_built("heaptap"), command, "-p", number, "--json", NULL},
		COMMAND_MS, &out, &err);
	ck_assert_msg(got == status, "%s ended with %d instead of %d: %s%s", command, got, status,
		out, err);
	ck_assert_str_eq(err, "");
	json_t *object = report_parse(out);
	free(out);
	free(err);
	return object;
}

uint64_t report_count(struct victim *victim, const char *what)
{
	char *answer = victim_ask(victim, "count", REPORT_MS);
	json_t *count = report_parse(answer);
	uint64_t value = report_u64(count, what);
	json_decref(count);
	free(answer);
	return value;
}

json_t *report_at(const json_t *root, const char *path)
{
	char copy[256], *rest = NULL;
	snprintf(copy, sizeof(copy), "%s", path);
	const json_t *at = root;
	for (char *key = strtok_r(copy, ".", &rest); key; key = strtok_r(NULL, ".", &rest)) {
		at = json_object_get(at, key);
		if (!at) {
			char *text = json_dumps(root, JSON_COMPACT);
			ck_abort_msg("no \"%s\" in %.2000s", path, text);
		}
	}
	return (json_t *)at;
}

uint64_t report_u64(const json_t *root, const char *path)
{
	const json_t *value = report_at(root, path);
	ck_assert_msg(json_is_integer(value), "\"%s\" is no integer", path);
	return (uint64_t)json_integer_value(value);
}

const char *report_text(const json_t *root, const char *path)
{
	const json_t *value = report_at(root, path);
	ck_assert_msg(json_is_string(value), "\"%s\" is no string", path);
	return json_string_value(value);
}

void report_check_amount(const char *text, const char *label, uint64_t expected)
{
	const char *line = strstr(text, label);
	ck_assert_msg(line != NULL, "no \"%s\" in %.2000s", label, text);
	char *unit;
	double amount = strtod(line + strlen(label), &unit);
	double scale = *unit == 'K' ? 1e3 : *unit == 'M' ? 1e6 : *unit == 'G' ? 1e9 : 1;
	double printed = amount * scale;
	ck_assert_msg(fabs(printed - (double)expected) <= 0.006 * scale, "%s%.60s, not %lu", label,
		line + strlen(label), expected);
}
