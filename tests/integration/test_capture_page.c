/* SPDX-License-Identifier: Apache-2.0
 *
 * --html: attach and run write the page of a capture, with the given name or next to the trace.
 * Each program and child with a trace gets a page.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/files.h"
#include "tests/support/ht_check.h"
#include "tests/support/run.h"
#include "tests/support/tmpdir.h"
#include "tests/support/victim.h"

#define RUN_MS	  60000
#define WORDS_MAX 12
#define PAGE_MIN  100000 /* bytes: dygraphs alone has more */

/* Does this build make pages? */
static bool builds_pages(void)
{
	static int builds = -1;
	if (builds < 0) {
		char *none = tmpdir_path("no-such.htap"), *words;
		const int status =
			run_program((const char *[]){run_built("heaptap"), "html", none, NULL},
				RUN_MS, NULL, &words);
		builds = status != 3 || !strstr(words, "libjs-dygraphs");
		if (!builds)
			printf("skipped: capture_page: this build has no libjs-dygraphs\n");
		free(words);
		free(none);
	}
	return builds;
}

static bool exists(const char *name)
{
	HT_FREED char *path = tmpdir_path(name);
	struct stat status;
	const bool found = stat(path, &status) == 0;
	return found;
}

static bool is_page(const char *name)
{
	HT_FREED char *path = tmpdir_path(name);
	struct stat status;
	const bool found = stat(path, &status) == 0 && status.st_size > PAGE_MIN;
	return found;
}

static int attach(pid_t pid, const char *html, const char *trace, char **ret_words)
{
	char number[16];
	snprintf(number, sizeof(number), "%d", pid);
	return run_program((const char *[]){run_built("heaptap"), "-p", number, "-d", "0.2s", html,
				   "-o", trace, NULL},
		RUN_MS, NULL, ret_words);
}

HT_TEST(an_attached_process)
{
	char *trace = tmpdir_path("one.htap"), *page = tmpdir_path("other.html"), *words;
	char named[4200];
	struct victim victim;
	if (!builds_pages())
		return;
	victim_start(&victim, (const char *[]){run_built("tests/targets/actor"), NULL});
	ck_assert_int_eq(attach(victim.pid, "--html", trace, &words), 0);
	ck_assert_ptr_nonnull(strstr(words, "\npage:  "));
	ck_assert(is_page("one.html"));
	/* heaptap refuses to replace an existing page, and records nothing. */
	ck_assert_int_eq(unlink(trace), 0);
	ck_assert_int_eq(attach(victim.pid, "--html", trace, &words), 1);
	ck_assert_ptr_nonnull(strstr(words, "one.html exists; replace it with -f"));
	ck_assert(!exists("one.htap"));
	snprintf(named, sizeof(named), "--html=%s", page);
	ck_assert_int_eq(attach(victim.pid, named, trace, &words), 0);
	ck_assert(is_page("other.html"));
	snprintf(named, sizeof(named), "--html=%s", trace);
	ck_assert_int_eq(unlink(trace), 0);
	ck_assert_int_eq(attach(victim.pid, named, trace, &words), 2);
	ck_assert_ptr_nonnull(strstr(words, "one.htap is the name of the trace"));
	ck_assert(!exists("one.htap"));
	victim_prove_alive(&victim);
	victim_stop(&victim);
}

/* Replaces an analyzer that takes long. heaptap has a timeout for printing messages, whose SIGALRM
 * must not end the wait for the page: the script sends heaptap that signal. */
#define SLOW_ANALYZER "#!/bin/sh\nkill -ALRM $PPID\necho page >\"$3\"\n"

HT_TEST(a_page_may_take_long)
{
	char *directory = files_directory(), *heaptap = files_path(directory, "heaptap"), *words;
	char *analyzer = files_path(directory, "heaptap-analyze"), number[16];
	char *trace = files_path(directory, "slow.htap"),
	     *page = files_path(directory, "slow.html");
	struct victim victim;
	files_write(analyzer, SLOW_ANALYZER);
	ck_assert_int_eq(chmod(analyzer, 0700), 0);
	ck_assert_int_eq(
		run_program((const char *[]){"/bin/cp", run_built("heaptap"), heaptap, NULL},
			RUN_MS, NULL, NULL),
		0);
	victim_start(&victim, (const char *[]){run_built("tests/targets/actor"), NULL});
	snprintf(number, sizeof(number), "%d", victim.pid);
	ck_assert_int_eq(run_program((const char *[]){heaptap, "-p", number, "-d", "0.2s", "--html",
					     "--symbolize", "later", "-o", trace, NULL},
				 RUN_MS, NULL, &words),
		0);
	files_check(page, "page\n");
	ck_assert_msg(strstr(words, "\npage:  "), "%s", words);
	victim_stop(&victim);
}

/* Runs `heaptap run` with the option `html` and with `words`; the trace is the test's file
 * `name`. */
static int run(const char *html, const char *name, const char *const words[], char **ret_words)
{
	const char *argv[WORDS_MAX + 6] = {
		run_built("heaptap"), "run", html, "-o", tmpdir_path(name)};
	for (size_t i = 0; words[i] && i < WORDS_MAX; i++)
		argv[i + 5] = words[i];
	return run_program(argv, RUN_MS, NULL, ret_words);
}

HT_TEST(a_command)
{
	char named[4200], *page = tmpdir_path("of-true.html"), *words;
	if (!builds_pages())
		return;
	/* The page never changes the status of the command. */
	ck_assert_int_eq(run("--html", "run.htap",
				 (const char *[]){"--", "sh", "-c", "exit 4", NULL}, &words),
		4);
	ck_assert(is_page("run.html"));
	ck_assert_ptr_nonnull(strstr(words, "\npage:  "));
	/* If the page cannot be written, heaptap does not start the command. */
	ck_assert_int_eq(
		run("--html", "run.htap", (const char *[]){"-q", "touch", page, NULL}, &words), 1);
	ck_assert_ptr_nonnull(strstr(words, "touch was not started"));
	ck_assert(!exists("of-true.html"));
	snprintf(named, sizeof(named), "--html=%s", page);
	ck_assert_int_eq(run(named, "named.htap", (const char *[]){"-q", "true", NULL}, &words), 0);
	ck_assert_str_eq(words, "");
	ck_assert(is_page("of-true.html"));
	ck_assert(!exists("named.html"));
}

HT_TEST(programs)
{
	char named[4200], *words;
	const char *const become[] = {"--", run_built("tests/targets/become"), "execve",
		run_built("tests/targets/early"), "x", NULL};
	if (!builds_pages())
		return;
	snprintf(named, sizeof(named), "--html=%s", tmpdir_path("first.html"));
	ck_assert_int_eq(run(named, "exec.htap", become, &words), 0);
	ck_assert(is_page("first.html"));
	ck_assert(is_page("exec.2.html"));
	ck_assert(!exists("exec.html"));
}

/* The number of files in the directory whose names end with `end`. */
static unsigned count_files(const char *directory, const char *end)
{
	unsigned count = 0;
	DIR *dir = opendir(directory);
	ck_assert_ptr_nonnull(dir);
	for (const struct dirent *entry; (entry = readdir(dir));) {
		const size_t length = strlen(entry->d_name), tail = strlen(end);
		count += length > tail && strcmp(entry->d_name + length - tail, end) == 0;
	}
	closedir(dir);
	return count;
}

HT_TEST(children)
{
	char *directory = files_directory(), *trace = files_path(directory, "fork.htap"), *words;
	if (!builds_pages())
		return;
	const char *const argv[] = {run_built("heaptap"), "run", "--html", "--follow-forks", "-o",
		trace, "--", "sh", "-c", "/bin/true; :", NULL};
	ck_assert_int_eq(run_program(argv, RUN_MS, NULL, &words), 0);
	ck_assert_msg(count_files(directory, ".htap") >= 2, "%s", words);
	ck_assert_uint_eq(count_files(directory, ".html"), count_files(directory, ".htap"));
}

HT_SUITE("integration/capture_page")
