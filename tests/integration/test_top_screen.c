/* SPDX-License-Identifier: Apache-2.0
 *
 * The interactive heaptap top, in a terminal of tmux: the table appears, adapts to a new terminal
 * size, obeys the shell's job control, and detaches when it ends; and the effect of its keys.
 */
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/files.h"
#include "tests/support/ht_check.h"
#include "tests/support/report.h"
#include "tests/support/run.h"
#include "tests/support/steer.h"
#include "tests/support/tap.h"
#include "tests/support/tmpdir.h"
#include "tests/support/victim.h"

#define WAIT_MS 20000

struct screened {
	struct victim victim;
	struct tap tap;
	char *socket;
};

static char *tmux(const struct screened *screened, const char *const words[])
{
	const char *argv[20] = {"tmux", "-u", "-S", screened->socket};
	char *out, *err;
	for (size_t i = 0; words[i]; i++)
		argv[i + 4] = words[i];
	run_program(argv, WAIT_MS, &out, &err);
	free(err);
	return out;
}

static void type(const struct screened *screened, const char *keys)
{
	free(tmux(screened, (const char *[]){"send-keys", "-t", "top", keys, NULL}));
}

/* Types the key, then `text` in place of the text that top suggests. */
static void type_after(const struct screened *screened, const char *key, const char *text)
{
	type(screened, key);
	type(screened, "C-u");
	free(tmux(screened, (const char *[]){"send-keys", "-t", "top", "-l", text, NULL}));
	type(screened, "Enter");
}

static char *screen_of(const struct screened *screened)
{
	return tmux(screened, (const char *[]){"capture-pane", "-p", "-t", "top", NULL});
}

static bool shows(const struct screened *screened, const char *words)
{
	HT_FREED char *out = screen_of(screened);
	const bool ret = strstr(out, words);
	return ret;
}

static bool has_tmux(void)
{
	if (access("/usr/bin/tmux", X_OK) == 0)
		return true;
	printf("skipped: the interactive top: tmux is not installed\n");
	return false;
}

static void start_target(struct screened *screened)
{
	*screened = (struct screened){.socket = tmpdir_path("tmux")};
	victim_start(&screened->victim, (const char *[]){run_built("tests/targets/cxx"), NULL});
	screened->tap = (struct tap){.target = screened->victim.pid};
}

/* Starts top in a shell in the terminal, and waits for the table. */
static void start_top(struct screened *screened)
{
	char *heaptap = realpath(run_built("heaptap"), NULL), command[5000];
	free(tmux(screened, (const char *[]){"-f", "/dev/null", "new-session", "-d", "-x", "80",
				    "-y", "24", "-s", "top", "bash", NULL}));
	snprintf(command, sizeof(command), "%s top -d 0.5 -p %d; echo status $?.", heaptap,
		screened->victim.pid);
	type(screened, command);
	type(screened, "Enter");
	free(heaptap);
	run_until(shows(screened, "FUNCTION <- CALLER"), WAIT_MS);
}

static void start(struct screened *screened)
{
	start_target(screened);
	tap_look(&screened->tap, 0);
	start_top(screened);
}

static void finish(struct screened *screened)
{
	free(tmux(screened, (const char *[]){"kill-server", NULL}));
	victim_stop(&screened->victim);
	free(screened->socket);
}

HT_TEST(the_table_fits_stops_and_ends)
{
	struct screened screened;
	if (!has_tmux())
		return;
	start(&screened);
	/* The line of keys is cut at the last column. */
	run_until(shows(&screened, "  p pause  b b..."), WAIT_MS);
	free(tmux(&screened,
		(const char *[]){"resize-window", "-t", "top", "-x", "30", "-y", "8", NULL}));
	run_until(shows(&screened, "too small: min 36x8"), WAIT_MS);
	free(tmux(&screened,
		(const char *[]){"resize-window", "-t", "top", "-x", "120", "-y", "30", NULL}));
	run_until(shows(&screened, "p pause"), WAIT_MS);
	type(&screened, "?");
	run_until(shows(&screened, "put a mark into the trace"), WAIT_MS);
	type(&screened, "q");
	run_until(shows(&screened, "p pause"), WAIT_MS);
	type(&screened, "C-z");
	run_until(shows(&screened, "Stopped"), WAIT_MS);
	/* The capture goes on while the table is stopped. */
	ck_assert(tap_is_recording(screened.victim.pid));
	type(&screened, "fg");
	type(&screened, "Enter");
	run_until(shows(&screened, "p pause"), WAIT_MS);
	type(&screened, "q");
	run_until(!shows(&screened, "p pause"), WAIT_MS);
	tap_verify_soon(&screened.tap, WAIT_MS);
	finish(&screened);
}

HT_TEST(ctrl_c_leaves_the_target)
{
	struct screened screened;
	if (!has_tmux())
		return;
	start(&screened);
	type(&screened, "C-c");
	run_until(shows(&screened, "status 0."), WAIT_MS);
	tap_verify(&screened.tap);
	finish(&screened);
}

HT_TEST(a_terminal_that_hangs_up_leaves_the_target)
{
	struct screened screened;
	if (!has_tmux())
		return;
	start(&screened);
	free(tmux(&screened, (const char *[]){"kill-server", NULL}));
	tap_verify_soon(&screened.tap, WAIT_MS);
	victim_stop(&screened.victim);
	free(screened.socket);
}

/* --- keys ------------------------------------------------------------------------------------ */

static void quit(struct screened *screened)
{
	type(screened, "q");
	run_until(shows(screened, "status 0."), WAIT_MS);
	tap_verify(&screened->tap);
	finish(screened);
}

static bool has_pages(void)
{
	if (access("/usr/share/javascript/dygraphs/dygraph.min.js", R_OK) == 0)
		return true;
	printf("skipped: the interactive top: pages: this build has no libjs-dygraphs\n");
	return false;
}

static void check_page(const char *path)
{
	static const char begin[] = "<!DOCTYPE html>", end[] = "</html>";
	char *page = NULL;
	size_t room = 0;
	FILE *file = fopen(path, "re");
	ck_assert_ptr_nonnull(file);
	ck_assert_int_gt(getdelim(&page, &room, '\0', file), 0);
	fclose(file);
	ck_assert_int_eq(strncasecmp(page, begin, strlen(begin)), 0);
	ck_assert_ptr_nonnull(strstr(page, end));
	free(page);
}

HT_TEST(w_writes_a_page_or_says_why_not)
{
	struct screened screened;
	char *page = tmpdir_path("live.html"), *nowhere = tmpdir_path("none/live.html");
	if (!has_tmux() || !has_pages())
		return;
	start(&screened);
	type_after(&screened, "w", page);
	run_until(shows(&screened, "Written: "), WAIT_MS);
	check_page(page);
	/* A file that exists stays as it is. */
	files_write(page, "kept");
	type_after(&screened, "w", page);
	run_until(shows(&screened, "exists; name another file"), WAIT_MS);
	files_check(page, "kept");
	type_after(&screened, "w", nowhere);
	run_until(shows(&screened, "No such file or directory"), WAIT_MS);
	type_after(&screened, "w", "-");
	run_until(shows(&screened, "name a file for the page"), WAIT_MS);
	quit(&screened);
	free(nowhere);
	free(page);
}

HT_TEST(w_writes_a_page_after_the_capture_has_ended)
{
	struct screened screened;
	char *page = tmpdir_path("ended.html");
	if (!has_tmux() || !has_pages())
		return;
	start_target(&screened);
	start_top(&screened);
	victim_stop(&screened.victim);
	run_until(shows(&screened, "The capture has ended: "), WAIT_MS);
	type_after(&screened, "w", page);
	run_until(shows(&screened, "Written: "), WAIT_MS);
	check_page(page);
	type(&screened, "q");
	run_until(shows(&screened, "status 5."), WAIT_MS);
	free(tmux(&screened, (const char *[]){"kill-server", NULL}));
	free(screened.socket);
	free(page);
}

HT_TEST(p_pauses_and_resumes)
{
	struct screened screened;
	if (!has_tmux())
		return;
	start(&screened);
	steer_check_state(screened.victim.pid, "recording");
	type(&screened, "p");
	run_until(shows(&screened, "Paused: no new allocation"), WAIT_MS);
	steer_check_state(screened.victim.pid, "paused");
	run_until(shows(&screened, "  paused  "), WAIT_MS);
	type(&screened, "p");
	run_until(shows(&screened, "Recording again"), WAIT_MS);
	steer_check_state(screened.victim.pid, "recording");
	quit(&screened);
}

/* Number of rows of the table: the lines from below its titles to the first empty one. */
static size_t rows_of(const struct screened *screened)
{
	char *out = screen_of(screened), *rest = strstr(out, "FUNCTION <- CALLER");
	size_t rows = 0;
	strsep(&rest, "\n");
	for (const char *line; (line = strsep(&rest, "\n")) && *line;)
		rows++;
	free(out);
	return rows;
}

HT_TEST(a_filter_leaves_the_stacks_with_its_text)
{
	struct screened screened;
	if (!has_tmux())
		return;
	start(&screened);
	run_until(
		shows(&screened, " fill <- run()") && shows(&screened, " count <- run()"), WAIT_MS);
	type(&screened, " ");
	run_until(shows(&screened, "display held"), WAIT_MS);
	const size_t all = rows_of(&screened);
	type_after(&screened, "/", "COUNT");
	run_until(shows(&screened, "/ filter: COUNT"), WAIT_MS);
	ck_assert(shows(&screened, " count <- run()") && !shows(&screened, " fill <- run()"));
	ck_assert_uint_ge(rows_of(&screened), 1);
	ck_assert_uint_lt(rows_of(&screened), all);
	type_after(&screened, "/", "no such name");
	run_until(shows(&screened, "no stack has this text"), WAIT_MS);
	type(&screened, "Escape");
	run_until(shows(&screened, " fill <- run()"), WAIT_MS);
	ck_assert_uint_eq(rows_of(&screened), all);
	quit(&screened);
}

HT_TEST(b_begins_a_baseline_and_ends_it)
{
	struct screened screened;
	if (!has_tmux())
		return;
	start(&screened);
	ck_assert(!shows(&screened, "Since the baseline"));
	type(&screened, "b");
	run_until(shows(&screened, "Since the baseline, "), WAIT_MS);
	run_until(shows(&screened, " CHANGE "), WAIT_MS);
	type(&screened, "b");
	run_until(shows(&screened, " OUTSTAND "), WAIT_MS);
	ck_assert(!shows(&screened, "Since the baseline"));
	quit(&screened);
}

HT_TEST(m_puts_a_mark_into_the_trace)
{
	struct screened screened;
	if (!has_tmux())
		return;
	start_target(&screened);
	tap_start(&screened.tap, screened.victim.pid, NULL);
	tap_wait_any(&screened.tap);
	start_top(&screened);
	type_after(&screened, "m", "cache cleared q");
	run_until(shows(&screened, "The mark is in the trace"), WAIT_MS);
	type(&screened, "q");
	run_until(shows(&screened, "status 0."), WAIT_MS);
	json_decref(tap_stop(&screened.tap, 0));
	json_t *report = report_load(screened.tap.trace);
	const json_t *marks = report_at(report, "marks");
	ck_assert_uint_eq(json_array_size(marks), 1);
	ck_assert_str_eq(report_text(json_array_get(marks, 0), "text"), "cache cleared q");
	json_decref(report);
	finish(&screened);
}

HT_TEST(a_question_mark_shows_the_keys)
{
	struct screened screened;
	if (!has_tmux())
		return;
	start(&screened);
	ck_assert(!shows(&screened, "put a mark into the trace"));
	type(&screened, "?");
	run_until(shows(&screened, "put a mark into the trace"), WAIT_MS);
	/* In this view the table's keys have no effect: p does not pause. */
	type(&screened, "p");
	run_until(shows(&screened, "FUNCTION <- CALLER"), WAIT_MS);
	steer_check_state(screened.victim.pid, "recording");
	quit(&screened);
}

HT_SUITE("integration/top_screen")
