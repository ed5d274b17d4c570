/* SPDX-License-Identifier: Apache-2.0
 *
 * The text for an operator: it has its own words for each state, and names the next command.
 */
#include "attach/cli/print_care.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/ht_check.h"

#define PID    4711
#define NO_END "" /* the text names no next command */

/* Returns what `print` writes to standard output, in static memory. */
static char *printed(void (*print)(const void *report), const void *report)
{
	static char text[8192];
	int out = dup(STDOUT_FILENO), memory = memfd_create("printed", MFD_CLOEXEC);
	fflush(stdout);
	ck_assert_int_eq(dup2(memory, STDOUT_FILENO), STDOUT_FILENO);
	print(report);
	fflush(stdout);
	ck_assert_int_eq(dup2(out, STDOUT_FILENO), STDOUT_FILENO);
	ssize_t length = pread(memory, text, sizeof(text) - 1, 0);
	ck_assert_int_ge(length, 0);
	text[length] = '\0';
	close(memory);
	close(out);
	return text;
}

struct words {
	const char *outcome, *next, *says[3];
};

static void check_text(const char *text, const struct words *words)
{
	char last[64] = "";
	for (size_t i = 0; i < HT_ARRAY_SIZE(words->says) && words->says[i]; i++)
		ck_assert_msg(
			strstr(text, words->says[i]), "\"%s\" is not in: %s", words->says[i], text);
	if (words->next[0])
		snprintf(last, sizeof(last), "next: heaptap %s -p %d\n", words->next, PID);
	size_t length = strlen(text), end = strlen(last);
	ck_assert_msg(end <= length && !strcmp(text + length - end, last), "%s", text);
	ck_assert_msg(end || !strstr(text, "next:"), "%s", text);
}

static void check_json(const char *text, const char *name, const struct words *words)
{
	char next[64] = "";
	json_auto_t *object = json_loads(text, 0, NULL);
	ck_assert_msg(object != NULL, "%s", text);
	if (words->next[0])
		snprintf(next, sizeof(next), "heaptap %s -p %d", words->next, PID);
	ck_assert_str_eq(json_string_value(json_object_get(object, name)), words->outcome);
	ck_assert_str_eq(json_string_value(json_object_get(object, "next")), next);
}

/* --- verify -------------------------------------------------------------------------------------
 */

static void as_verify(const void *report)
{
	ck_no_err(print_verify(report, PID, false));
}

static void as_verify_json(const void *report)
{
	ck_no_err(print_verify(report, PID, true));
}

static void check_verify(const struct verify_report *report, const struct words *words)
{
	check_text(printed(as_verify, report), words);
	check_json(printed(as_verify_json, report), "state", words);
}

HT_TEST(what_verify_says)
{
	static const struct words words[] = {
		[VERIFY_CLEAN] = {"clean", NO_END, {"nothing of heaptap is in process 4711"}},
		[VERIFY_TAPPED] = {"tapped", "verify", {"heaptap is working on process 4711"}},
		[VERIFY_ABANDONED] = {"abandoned", "recover",
			{"the code of heaptap 99, which has ended", "not in danger",
				"recover removes"}},
		[VERIFY_TOMBSTONE] = {"tombstone", "cleanup",
			{"left by heaptap 99", "not in danger", "cleanup removes"}},
		[VERIFY_REMAINS] = {"remains", NO_END, {"a killed heaptap left", "no harm\n"}},
	};
	for (enum verify_state state = VERIFY_CLEAN; state <= VERIFY_REMAINS; state++) {
		struct verify_report report = {.state = state, .daemon_pid = 99};
		check_verify(&report, &words[state]);
	}
}

/* The text never calls slots harmless that lead to unmapped memory; for changed code it names
 * recover. */
HT_TEST(what_remains)
{
	struct verify_report report = {.state = VERIFY_REMAINS};
	report.part[VERIFY_CODE].ours = true;
	check_verify(
		&report, &(struct words){"remains", "recover", {"recover restores the bytes"}});
	report.part[VERIFY_CODE].ours = false;
	report.part[VERIFY_SLOTS].ours = true;
	check_verify(
		&report, &(struct words){"remains", NO_END,
				 {"lead to unmapped memory", "the next call", "keep this output"}});
	ck_assert_ptr_null(strstr(printed(as_verify, &report), "no harm"));
}

/* --- recover ------------------------------------------------------------------------------------
 */

static void as_recover(const void *report)
{
	ck_no_err(print_recover(report, PID, false));
}

static void as_recover_json(const void *report)
{
	ck_no_err(print_recover(report, PID, true));
}

HT_TEST(what_recover_says)
{
	static const struct words words[] = {
		[RECOVER_NOTHING] = {"nothing", NO_END, {"there was nothing to do"}},
		[RECOVER_DONE] = {"done", NO_END,
			{"4 of 5 addresses lead to the allocator again", "the program changed 1",
				"nothing of heaptap is left"}},
		[RECOVER_TOMBSTONE] = {"tombstone", "cleanup", {"for a reason", "cleanup removes"}},
		[RECOVER_INCOMPLETE] = {"incomplete", "recover",
			{"left:  for a reason\n", "no harm", "recover again"}},
	};
	for (enum recover_outcome outcome = RECOVER_NOTHING; outcome <= RECOVER_INCOMPLETE;
		outcome++) {
		struct recover_report report = {.outcome = outcome,
			.found = {.image = outcome != RECOVER_NOTHING, .daemon_pid = 99},
			.detach = {.patch = {.tapped = 5, .restored = 4, .changed = 1},
				.quiesce = {.tid = 17},
				.why = "for a reason"}};
		check_text(printed(as_recover, &report), &words[outcome]);
		check_json(printed(as_recover_json, &report), "outcome", &words[outcome]);
	}
}

/* --- cleanup ------------------------------------------------------------------------------------
 */

static void as_cleanup(const void *report)
{
	ck_no_err(print_cleanup(report, PID, false));
}

static void as_cleanup_json(const void *report)
{
	ck_no_err(print_cleanup(report, PID, true));
}

static void check_cleanup(const struct cleanup_report *report, const struct words *words)
{
	check_text(printed(as_cleanup, report), words);
	check_json(printed(as_cleanup_json, report), "outcome", words);
}

HT_TEST(what_cleanup_says)
{
	static const struct words words[] = {
		[CLEANUP_NOTHING] = {"nothing", NO_END,
			{"no page of heaptap", "there was nothing to do"}},
		[CLEANUP_CAPTURE] = {"capture", "recover",
			{"the code of heaptap 99, which has ended", "Nothing was changed"}},
		[CLEANUP_REMOVED] = {"removed", NO_END,
			{"left by heaptap 99", "nothing of heaptap is left"}},
		[CLEANUP_IN_USE] = {"in use", "cleanup", {"left by heaptap 99", "is harmless"}},
	};
	for (enum cleanup_outcome outcome = CLEANUP_NOTHING; outcome <= CLEANUP_IN_USE; outcome++)
		check_cleanup(&(struct cleanup_report){.outcome = outcome, .daemon_pid = 99},
			&words[outcome]);
}

HT_TEST(what_uses_the_page)
{
	static const struct {
		struct jump_page_report found;
		const char *says;
	} table[] = {
		{{.slots = 2, .at = 0xabc0},
			"2 addresses of allocator functions lead into it, one at abc0 in [heap]"},
		{{.tid = 17}, "thread 17 may still return into it"},
		{{.pointers = 3, .at = 0xabc0},
			"the program keeps 3 addresses in it, one at abc0 in [heap]"},
		{{.pointers = 4}, "stacks of threads hold 4 addresses"},
		{{.unread_bytes = 8192}, "8 KiB of the program's memory could not be searched"},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(table); i++)
		check_cleanup(&(struct cleanup_report){.outcome = CLEANUP_IN_USE,
				      .found = table[i].found,
				      .where = "[heap]"},
			&(struct words){"in use", "cleanup", {table[i].says}});
}

HT_SUITE("attach/print_care")
