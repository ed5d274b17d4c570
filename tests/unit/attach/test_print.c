/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/cli/print.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/cli/print_care.h"
#include "attach/cli/print_session.h"
#include "attach/cli/print_survey.h"
#include "tests/support/ht_check.h"
#include "tests/support/tmpdir.h"

#define HOSTILE "/x\033[2J\xc3/\xe2\x80\xae.so"
#define TAME	"/x[2J?/.so"

/* Redirects standard output and standard error to the file at `path`. */
static void print_into(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(dup2(fd, STDOUT_FILENO), STDOUT_FILENO);
	ck_assert_int_eq(dup2(fd, STDERR_FILENO), STDERR_FILENO);
	close(fd);
}

static char *printed(const char *path)
{
	static char text[65536];
	fflush(NULL);
	FILE *file = fopen(path, "re");
	ck_assert_ptr_nonnull(file);
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	fclose(file);
	return text;
}

static void check_text(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));
	ck_assert_ptr_nonnull(text);
	ck_assert_str_eq(text, TAME);
}

static struct session_report hostile_report(void)
{
	struct session_report report = {.detached = true, .unseen_places = 1};
	report.level = DETACH_TOMBSTONE;
	snprintf(report.unseen, sizeof(report.unseen), HOSTILE);
	snprintf(report.why, sizeof(report.why), HOSTILE);
	snprintf(report.verify.maps, sizeof(report.verify.maps), HOSTILE);
	return report;
}

HT_TEST(the_end_of_a_capture_is_json_whatever_the_target_is_called)
{
	HT_FREED char *path = tmpdir_path("printed");
	struct session_report report = hostile_report();
	print_into(path);
	ck_no_err(print_session_json(&report, 1, HOSTILE));
	json_auto_t *object = json_loads(printed(path), 0, NULL);
	ck_assert_ptr_nonnull(object);
	check_text(object, "unseen");
	check_text(object, "why");
	check_text(object, "trace");
	check_text(json_object_get(object, "verify"), "maps");
}

HT_TEST(the_end_of_a_capture_is_text_whatever_the_target_is_called)
{
	HT_FREED char *path = tmpdir_path("printed");
	struct session_report report = hostile_report();
	print_into(path);
	print_session(&report, HOSTILE, true, true);
	const char *text = printed(path);
	ck_assert_ptr_null(strchr(text, '\033'));
	ck_assert_ptr_nonnull(strstr(text, "left in the process: " TAME "\n"));
	ck_assert_ptr_nonnull(strstr(text, "trace: " TAME " (0 bytes, 0 events in 0.0 s)\n"));
}

static const char *printed_of_capture(const struct session_report *report, bool verbose)
{
	HT_FREED char *path = tmpdir_path(verbose ? "verbose" : "brief");
	print_into(path);
	print_session(report, "a.htap", verbose, true);
	const char *text = printed(path);
	return text;
}

HT_TEST(a_capture_without_problems_is_three_lines)
{
	struct session_report report = {.detached = true,
		.verify = {.equal = true},
		.events = 1,
		.capture_ns = 1500000000,
		.trace_bytes = 3 << 19,
		.threads = 2,
		.ended = REC_END_SIGNAL,
		.children = {.cleaned = 3}};
	ck_assert_str_eq(printed_of_capture(&report, false),
		"process unchanged: 6 checks\n"
		"trace: a.htap (1.5 MiB, 1 event in 1.5 s)\n"
		"next:  heaptap report a.htap\n");
	const char *verbose = printed_of_capture(&report, true);
	ck_assert_ptr_nonnull(strstr(verbose, "\n  descriptors "));
	ck_assert_ptr_nonnull(strstr(verbose, "threads: 2;"));
	ck_assert_ptr_nonnull(strstr(verbose, "children forked during the capture: 3,"));
}

HT_TEST(what_a_trace_lacks_is_printed_before_its_name)
{
	struct session_report report = {.detached = true,
		.verify = {.equal = true},
		.dropped_events = 7,
		.ended = REC_END_TARGET_EXIT,
		.sink_state = STORE_BROKEN};
	snprintf(report.sink_problem, sizeof(report.sink_problem), "the reader is slow");
	const char *text = printed_of_capture(&report, false);
	const char *trace = strstr(text, "\ntrace: ");
	static const char *const lines[] = {"\nrecording ended early: the process exited\n",
		"\nWARNING: 7 events are lost,",
		"\nWARNING: the trace is incomplete: the reader is slow\n"};
	ck_assert_ptr_nonnull(trace);
	for (size_t i = 0; i < HT_ARRAY_SIZE(lines); i++) {
		const char *line = strstr(text, lines[i]);
		ck_assert_msg(line && line < trace, "%s: %s", lines[i], text);
	}
}

HT_TEST(a_process_that_is_not_as_it_was_is_never_called_unchanged)
{
	struct session_report differs = {.detached = true, .why = "a mask"};
	struct session_report left = {
		.detached = true, .level = DETACH_INCOMPLETE, .verify = {.equal = true}};
	struct session_report ended = {.ended = REC_END_TARGET_EXIT};
	ck_assert_ptr_nonnull(
		strstr(printed_of_capture(&differs, false), "not as it was: a mask\n"));
	ck_assert_ptr_null(strstr(printed_of_capture(&differs, false), "unchanged"));
	ck_assert_ptr_null(strstr(printed_of_capture(&left, false), "unchanged"));
	ck_assert_ptr_null(strstr(printed_of_capture(&ended, false), "unchanged"));
}

static struct survey hostile_survey(struct module *module, struct slot *slot,
	struct coverage_function *function, struct native *native)
{
	struct survey survey = {.modules = {.module = module, .count = 1},
		.slots = {.slot = slot, .count = 1},
		.coverage = {.function = function, .count = 1, .operators = module, .places = 1}};
	static char path[] = HOSTILE;
	*module = (struct module){.id = 1, .path = path};
	*slot = (struct slot){.module_id = 1};
	static char name[] = HOSTILE;
	*native = (struct native){.name = name, .family = family_at(0)};
	*function = (struct coverage_function){.module = module, .native = native};
	snprintf(survey.status.comm, sizeof(survey.status.comm), HOSTILE);
	return survey;
}

HT_TEST(what_attach_would_do_is_json_and_text)
{
	struct module module;
	struct slot slot;
	struct coverage_function function;
	struct native native;
	char *path = tmpdir_path("printed"), *words = tmpdir_path("words");
	struct survey survey = hostile_survey(&module, &slot, &function, &native);
	struct ownprofile profile = {.active = HOSTILE};
	struct entries entries = {0};
	struct taps taps;
	ck_no_err(taps_plan(&survey, &entries, (struct taps_follow){0}, &taps));
	print_into(path);
	ck_no_err(print_survey_json(&survey, &taps, &profile));
	json_t *object = json_loads(printed(path), 0, NULL);
	ck_assert_ptr_nonnull(object);
	check_text(object, "comm");
	check_text(object, "own_profile");
	check_text(json_array_get(json_object_get(object, "slots"), 0), "module");
	check_text(json_array_get(json_object_get(object, "linked_in"), 0), "function");
	check_text(json_array_get(json_object_get(object, "linked_in"), 0), "module");
	json_decref(object);
	print_into(words);
	print_survey(&survey, &taps, &profile, true);
	taps_deinit(&taps);
	ck_assert_ptr_null(strchr(printed(words), '\033'));
	free(path);
	free(words);
}

HT_TEST(what_verify_found_is_json_and_text)
{
	char *path = tmpdir_path("printed"), *words = tmpdir_path("words");
	struct verify_report report = {0};
	snprintf(report.comm, sizeof(report.comm), HOSTILE);
	snprintf(report.part[0].text, sizeof(report.part[0].text), HOSTILE);
	snprintf(report.part[0].other, sizeof(report.part[0].other), HOSTILE);
	print_into(path);
	ck_no_err(print_verify(&report, 1, true));
	json_t *object = json_loads(printed(path), 0, NULL);
	ck_assert_ptr_nonnull(object);
	check_text(object, "comm");
	check_text(json_object_get(json_object_get(object, "parts"), "mappings"), "other");
	json_decref(object);
	print_into(words);
	ck_no_err(print_verify(&report, 1, false));
	ck_assert_ptr_null(strchr(printed(words), '\033'));
	free(path);
	free(words);
}

HT_SUITE("attach/print")
