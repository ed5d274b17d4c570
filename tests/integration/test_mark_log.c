/* SPDX-License-Identifier: Apache-2.0
 *
 * --mark-log: lines of a log become marks while a capture runs.
 */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/ht_check.h"
#include "tests/support/steer.h"
#include "tests/support/tap.h"
#include "tests/support/tmpdir.h"
#include "tests/support/victim.h"

#define LIMIT_MS 20000
#define USAGE	 2
#define BURST	 2000u

static struct victim victim;
static struct tap tap;
static char *log_path;

static void append(const char *text)
{
	FILE *out = fopen(log_path, "ae");
	ck_assert_ptr_nonnull(out);
	ck_assert_int_ge(fputs(text, out), 0);
	ck_assert_int_eq(fclose(out), 0);
}

static bool has_open(pid_t pid, const char *path)
{
	char name[64], found[4096];
	bool has = false;
	snprintf(name, sizeof(name), "/proc/%d/fd", pid);
	DIR *directory = opendir(name);
	const struct dirent *entry;
	while (directory && !has && (entry = readdir(directory)) != NULL) {
		ssize_t length =
			readlinkat(dirfd(directory), entry->d_name, found, sizeof(found) - 1);
		found[length > 0 ? length : 0] = '\0';
		has = strcmp(found, path) == 0;
	}
	if (directory)
		closedir(directory);
	return has;
}

/* The child of heaptap that reads the log; 0: none yet. */
static pid_t reader_of(pid_t heaptap)
{
	char path[64], *text = NULL;
	size_t room = 0;
	pid_t reader = 0;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", heaptap, heaptap);
	FILE *file = fopen(path, "re");
	if (file && getline(&text, &room, file) > 0) {
		char *at = text;
		for (pid_t pid; !reader && (pid = (pid_t)strtol(at, &at, 10)) > 0;)
			if (has_open(pid, log_path))
				reader = pid;
	}
	if (file)
		fclose(file);
	free(text);
	return reader;
}

static void begin(const char *pattern)
{
	char *option = NULL;
	log_path = tmpdir_path("app.log");
	append("ERROR of before\n");
	ck_assert_int_ge(asprintf(&option, "%s=%s", log_path, pattern), 0);
	victim_start(&victim, (const char *[]){run_built("tests/targets/stepwise"), NULL});
	tap_start(&tap, victim.pid, (const char *[]){"--mark-log", option, NULL});
	tap_wait_on(&tap, "/stepwise");
	run_until(reader_of(tap.run.pid) != 0, LIMIT_MS);
	free(option);
}

/* Ends the capture; returns heaptap dump's output of its trace, malloc'd. */
static char *end(void)
{
	char *out;
	tap_check_clean(tap_stop(&tap, 0));
	ck_assert_int_eq(
		run_program((const char *[]){run_built("heaptap"), "dump", tap.trace, NULL},
			LIMIT_MS, &out, NULL),
		0);
	victim_prove_alive(&victim);
	victim_stop(&victim);
	free(log_path);
	return out;
}

HT_TEST(lines_that_match_become_marks)
{
	begin("^(ERROR|WARN) [0-9]+");
	pid_t reader = reader_of(tap.run.pid);
	append("INFO 1\nERROR 17 of \033[31mred\nERROR x\n");
	run_until(steer_figure(victim.pid, "marks") == 1, LIMIT_MS);
	append("WARN 18\n");
	run_until(steer_figure(victim.pid, "marks") == 2, LIMIT_MS);
	HT_FREED char *dump = end();
	ck_assert_msg(strstr(dump, "ERROR 17 of [31mred"), "%.2000s", dump);
	ck_assert_ptr_nonnull(strstr(dump, "WARN 18"));
	ck_assert_ptr_null(strstr(dump, "INFO 1"));
	ck_assert_ptr_null(strstr(dump, "before"));
	/* The log reader ends with the window. */
	ck_assert_int_ne(kill(reader, 0), 0);
}

HT_TEST(a_burst_is_bounded_and_counted)
{
	begin("ERROR");
	FILE *out = fopen(log_path, "ae");
	ck_assert_ptr_nonnull(out);
	/* A large buffer, so that one write(2) shows the reader all lines at once. */
	ck_assert_int_eq(setvbuf(out, NULL, _IOFBF, 1u << 16), 0);
	for (unsigned i = 0; i < BURST; i++)
		fprintf(out, "ERROR %u\n", i);
	ck_assert_int_eq(fclose(out), 0);
	/* heaptap makes as many marks as it allows in a burst, and one more that counts the
	 * rest. */
	run_until(steer_figure(victim.pid, "marks") > 100, LIMIT_MS);
	uint64_t marks = steer_figure(victim.pid, "marks");
	ck_assert_uint_lt(marks, BURST / 2);
	HT_FREED char *dump = end();
	ck_assert_msg(strstr(dump, "more lines of"), "no mark counts the rest");
}

HT_TEST(wrong_words)
{
	static const struct {
		const char *value, *why;
	} wrong[] = {{"app.log", "FILE=REGEX"}, {"=x", "FILE=REGEX"}, {"app.log=", "FILE=REGEX"},
		{"app.log=(", "not an extended regular expression"}};
	for (size_t i = 0; i < HT_ARRAY_SIZE(wrong); i++) {
		char *err;
		ck_assert_int_eq(run_program((const char *[]){run_built("heaptap"), "attach", "-p",
						     "1", "--mark-log", wrong[i].value, NULL},
					 LIMIT_MS, NULL, &err),
			USAGE);
		ck_assert_msg(strstr(err, wrong[i].why), "%s", err);
		free(err);
	}
}

HT_SUITE("integration/mark_log")
