/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/ht_check.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Far longer than any test takes, even with sanitizers and on a busy machine. */
#define TEST_TIMEOUT_S 300
#define ASIDES_MAX     16
#define TESTS_MAX      256

int ht_suite_run(const char *name, const TTest *const *tests, size_t count)
{
	Suite *suite = suite_create(name);
	/* One test case per test, so that CK_RUN_CASE can select a single test. */
	for (size_t i = 0; i < count; i++) {
		TCase *tcase = tcase_create(tests[i]->name);
		tcase_set_timeout(tcase, TEST_TIMEOUT_S);
		tcase_add_test(tcase, tests[i]);
		suite_add_tcase(suite, tcase);
	}
	SRunner *runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

struct aside {
	pid_t pid;
	FILE *output;
};

static struct aside aside_start(const char *name, const TTest *const *test)
{
	struct aside aside = {.output = tmpfile()};
	fflush(NULL);
	aside.pid = aside.output ? fork() : -1;
	if (aside.pid)
		return aside;
	prctl(PR_SET_PDEATHSIG, SIGTERM); /* on SIGTERM Check ends the running test, too */
	dup2(fileno(aside.output), STDOUT_FILENO);
	dup2(fileno(aside.output), STDERR_FILENO);
	exit(ht_suite_run(name, test, 1));
}

static int aside_end(struct aside *aside, const TTest *test)
{
	int status = EXIT_FAILURE, c;
	if (aside->pid < 0 || waitpid(aside->pid, &status, 0) != aside->pid || !WIFEXITED(status))
		printf("%s: the process of this test could not be started, or was killed\n",
			test->name);
	if (aside->output) {
		rewind(aside->output);
		while ((c = getc(aside->output)) != EOF)
			putchar(c);
		fclose(aside->output);
	}
	return status ? EXIT_FAILURE : EXIT_SUCCESS;
}

int ht_suite_run_aside(const char *name, const TTest *const *tests, size_t count)
{
	static struct aside aside[ASIDES_MAX];
	const char *fork_mode = getenv("CK_FORK");
	int status = EXIT_SUCCESS;
	ck_need(count <= ASIDES_MAX);
	if (getenv("CK_RUN_CASE") || (fork_mode && !strcmp(fork_mode, "no")))
		return ht_suite_run(name, tests, count);
	for (size_t i = 0; i < count; i++)
		aside[i] = aside_start(name, &tests[i]);
	for (size_t i = 0; i < count; i++)
		status |= aside_end(&aside[i], tests[i]);
	return status;
}

static bool is_among(const TTest *test, const TTest *const *tests, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (tests[i] == test)
			return true;
	return false;
}

int ht_suite_run_all(const char *name, const TTest *const *tests, const TTest *const *end,
	const TTest *const *waiting, size_t waiting_count)
{
	static const TTest *rest[TESTS_MAX];
	size_t count = 0;
	ck_need(end - tests <= TESTS_MAX);
	/* Sorts by line: the compiler places the tests in the section in any order. */
	for (; tests < end; tests++) {
		size_t at = count;
		if (is_among(*tests, waiting, waiting_count))
			continue;
		for (; at > 0 && rest[at - 1]->line > (*tests)->line; at--)
			rest[at] = rest[at - 1];
		rest[at] = *tests;
		count++;
	}
	int status = waiting_count ? ht_suite_run_aside(name, waiting, waiting_count) : 0;
	return ht_suite_run(name, rest, count) | status;
}

void ht_check_need(bool condition, const char *text, const char *file, int line)
{
	if (!condition)
		ck_abort_msg("%s:%d: %s", file, line, text);
}

void ht_check_no_err(struct ht_err *err, const char *expr, const char *file, int line)
{
	if (err)
		ck_abort_msg("%s:%d: %s: %s", file, line, expr, err->message);
}

void ht_check_err(struct ht_err *err, enum ht_err_code code, const char *text, const char *expr,
	const char *file, int line)
{
	if (!err)
		ck_abort_msg("%s:%d: %s: no error", file, line, expr);
	if (err->code != code || !strstr(err->message, text))
		ck_abort_msg("%s:%d: %s: expected code %d and \"%s\", got %d: %s", file, line, expr,
			(int)code, text, (int)err->code, err->message);
	ht_err_free(err);
}
