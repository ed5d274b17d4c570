/* SPDX-License-Identifier: Apache-2.0
 *
 * scripts/run-tests adds up the results of Check programs, also of programs that run side by side,
 * crash or hang. A suite also counts its tests that run side by side. The files of killed tests are
 * removed. scripts/soak ends at a failure, and continues if only events were dropped. scripts/sweep
 * runs the given sweeps and prints how each ended.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/child.h"
#include "tests/support/files.h"
#include "tests/support/ht_check.h"
#include "tests/support/run.h"
#include "tests/support/tmpdir.h"

#define SCRIPT_MS 60000

static char *program(const char *name, const char *body)
{
	char *path = tmpdir_path(name);
	FILE *file = fopen(path, "we");
	ck_assert_ptr_nonnull(file);
	fprintf(file, "#!/bin/sh\n%s\n", body);
	ck_assert_int_eq(fclose(file), 0);
	ck_assert_int_eq(chmod(path, 0755), 0);
	return path;
}

static void check_last_line(const char *const argv[], int expected_status, const char *line)
{
	char *out;
	int status = run_program(argv, SCRIPT_MS, &out, NULL);
	ck_assert_msg(status == expected_status, "%d: %s", status, out);
	size_t length = strlen(out), last = strlen(line);
	ck_assert_msg(length > last && !strcmp(out + length - last, line) &&
			      out[length - last - 1] == '\n',
		"%s", out);
}

static const char good[] = "echo '100%: Checks: 3, Failures: 0, Errors: 0'";
static const char bad[] = "echo '50%: Checks: 4, Failures: 1, Errors: 1'; exit 1";

HT_TEST(counts_are_summed)
{
	check_last_line(
		(const char *[]){"scripts/run-tests", program("a", good), program("b", good), NULL},
		0, "6 passed, 0 failed\n");
	check_last_line(
		(const char *[]){"scripts/run-tests", program("a", good), program("b", bad), NULL},
		1, "5 passed, 2 failed\n");
}

HT_TEST(crashes_side_by_side_are_counted)
{
	const char *argv[4 + 40 + 1] = {"scripts/run-tests", "-j", "8"};
	const char *a = program("a", "kill -SEGV $$"), *b = program("b", good);
	for (size_t i = 3; i < 43; i++)
		argv[i] = i % 2 ? a : b;
	check_last_line(argv, 1, "60 passed, 20 failed\n");
}

HT_TEST(a_crash_is_a_failure)
{
	check_last_line((const char *[]){"scripts/run-tests", program("a", "kill -SEGV $$"),
				program("b", good), NULL},
		1, "3 passed, 1 failed\n");
	char body[256];
	snprintf(body, sizeof(body), "%s; exit 1", good);
	check_last_line((const char *[]){"scripts/run-tests", program("c", body), NULL}, 1,
		"3 passed, 1 failed\n");
	check_last_line((const char *[]){"scripts/run-tests", program("d", "exit 0"), NULL}, 1,
		"0 passed, 1 failed\n");
	check_last_line((const char *[]){"scripts/run-tests", "/nonexistent/program", NULL}, 1,
		"0 passed, 1 failed\n");
}

HT_TEST(a_hang_is_a_failure)
{
	setenv("TEST_LIMIT_S", "1", 1);
	check_last_line((const char *[]){"scripts/run-tests", program("a", "exec sleep 1000"),
				program("b", good), NULL},
		1, "3 passed, 1 failed\n");
}

HT_TEST(skips_are_shown)
{
	char body[256], *out;
	snprintf(body, sizeof(body), "echo 'skipped: this: not today'; %s", good);
	int status = run_program((const char *[]){"scripts/run-tests", program("a", body), NULL},
		SCRIPT_MS, &out, NULL);
	ck_assert_int_eq(status, 0);
	ck_assert_msg(strstr(out, "\nskipped: this: not today\n") &&
			      strstr(out, "\n3 passed, 0 failed, 1 skipped\n"),
		"%s", out);
	free(out);
}

/* Each of the two programs waits until the other has begun. */
HT_TEST(programs_run_side_by_side)
{
	char one[4400], other[4400], *here = tmpdir_path("");
	static const char body[] = "touch %s%s; until [ -e %s%s ]; do sleep 0.1; done; %s";
	snprintf(one, sizeof(one), body, here, "one", here, "other", good);
	snprintf(other, sizeof(other), body, here, "other", here, "one", good);
	check_last_line((const char *[]){"scripts/run-tests", "-j", "2", program("a", one),
				program("b", other), NULL},
		0, "6 passed, 0 failed\n");
	free(here);
}

/* A program marked "alone" begins when all others have ended, even if it is listed first. */
HT_TEST(alone_programs_run_alone)
{
	char alone[4400], slow[4400], *here = tmpdir_path(""), *order = tmpdir_path("order.txt");
	snprintf(slow, sizeof(slow), "sleep 0.5; touch %sended; %s", here, good);
	snprintf(alone, sizeof(alone), "[ -e %sended ] && %s", here, good);
	files_write(order, "# a comment\nalone lonely as this test says\nfirst early for once\n");
	setenv("TEST_ORDER", order, 1);
	check_last_line((const char *[]){"scripts/run-tests", "-j", "3", program("lonely", alone),
				program("slow", slow), NULL},
		0, "6 passed, 0 failed\n");
	free(order);
	free(here);
}

HT_TEST(long_programs_start_first)
{
	char *out, *order = tmpdir_path("order.txt");
	files_write(order, "first early for once\n");
	setenv("TEST_ORDER", order, 1);
	int status = run_program((const char *[]){"scripts/run-tests", "-j", "1",
					 program("late", good), program("early", good), NULL},
		SCRIPT_MS, &out, NULL);
	const char *early = strstr(out, "/early "), *late = strstr(out, "/late ");
	ck_assert_msg(status == 0 && early && late && early < late, "%s", out);
	free(out);
	free(order);
}

/* The output of a program is printed as a whole, when the program has ended. */
HT_TEST(outputs_are_not_mixed)
{
	char body[512], *out;
	static const char text[] = "for i in 1 2 3; do echo $0 $i; sleep 0.1; done; %s";
	snprintf(body, sizeof(body), text, bad);
	const char *const argv[] = {
		"scripts/run-tests", "-j", "2", program("a", body), program("b", body), NULL};
	ck_assert_int_eq(run_program(argv, SCRIPT_MS, &out, NULL), 1);
	for (int i = 3; i < 5; i++) {
		char whole[13000];
		snprintf(whole, sizeof(whole), "\n%s 1\n%s 2\n%s 3\n50%%: Checks: 4", argv[i],
			argv[i], argv[i]);
		ck_assert_msg(strstr(out, whole), "%s", out);
	}
	free(out);
}

/* A shell starts background jobs with SIGINT and SIGQUIT ignored. */
HT_TEST(a_test_inherits_no_ignored_signal)
{
	char body[256];
	snprintf(body, sizeof(body),
		"case $(sed -n 's/^SigIgn:.*\\(.\\)$/\\1/p' /proc/$$/status) in [2-7a-f]) exit 1 "
		";; "
		"esac; %s",
		good);
	check_last_line((const char *[]){"scripts/run-tests", program("a", body), NULL}, 0,
		"3 passed, 0 failed\n");
}

/* A sanitizer's report of any process of a test is a failure, even if the test passes. */
HT_TEST(a_sanitizers_report_is_a_failure)
{
	static const char at[] = "at=${ASAN_OPTIONS:?}; at=${at##*log_path=}";
	char body[256], warning[256], *out;
	snprintf(body, sizeof(body), "%s; echo '==77==ERROR: what it found' >$at.77; %s", at, good);
	snprintf(warning, sizeof(warning), "%s; echo '==77==WARNING: odd' >$at.77; %s", at, good);
	const char *const argv[] = {
		"scripts/run-tests", program("a", body), program("b", warning), NULL};
	check_last_line(argv, 1, "6 passed, 1 failed\n");
	ck_assert_int_eq(run_program(argv, SCRIPT_MS, &out, NULL), 1);
	ck_assert_msg(strstr(out, "what it found\n"), "%s", out);
	free(out);
}

HT_TEST(units_alone_are_searched_for_leaks)
{
	static const char body[] = "echo '100%: Checks: 1, Failures: 0, Errors: 0'\n"
				   "case $ASAN_OPTIONS in *detect_leaks=1*) exit 1 ;; esac";
	unsetenv("ASAN_OPTIONS");
	ck_assert_int_eq(mkdir(tmpdir_path("unit"), 0700), 0);
	ck_assert_int_eq(mkdir(tmpdir_path("integration"), 0700), 0);
	check_last_line((const char *[]){"scripts/run-tests", program("unit/a", body),
				program("integration/a", body), NULL},
		1, "2 passed, 1 failed\n");
}

/* --- tests that run side by side --- */

START_TEST(is_right)
{
	ck_assert(true);
}
END_TEST

START_TEST(is_wrong)
{
	ck_abort_msg("as intended");
}
END_TEST

/* Kills the parent of the test, which Check does not watch. */
START_TEST(ends_all)
{
	kill(getppid(), SIGKILL);
}
END_TEST

/* The first two tests each wait until the other has arrived. */
static volatile int *arrived;

static void meet(int here)
{
	arrived[here] = 1;
	run_until(arrived[1 - here], SCRIPT_MS);
}

START_TEST(meets_another)
{
	meet(0);
}
END_TEST

START_TEST(meets_another_too)
{
	meet(1);
}
END_TEST

/* Runs such a suite. Returns its status; `ret_out` gets its output (malloc'd). */
static int run_aside(const TTest *const *tests, size_t count, char **ret_out)
{
	int status;
	FILE *output = tmpfile();
	ck_assert_ptr_nonnull(output);
	pid_t pid = fork();
	if (!pid) {
		unsetenv("CK_RUN_CASE");
		dup2(fileno(output), STDOUT_FILENO);
		exit(ht_suite_run_aside("nested", tests, count));
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status));
	rewind(output);
	size_t capacity = 0;
	*ret_out = NULL;
	ck_assert_int_gt(getdelim(ret_out, &capacity, '\0', output), 0);
	fclose(output);
	return WEXITSTATUS(status);
}

HT_TEST(side_by_side_they_meet)
{
	HT_FREED char *out;
	const TTest *const tests[] = {meets_another, meets_another_too};
	arrived = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne((void *)arrived, MAP_FAILED);
	ck_assert_int_eq(run_aside(tests, HT_ARRAY_SIZE(tests), &out), 0);
}

HT_TEST(side_by_side_each_counts)
{
	char *out;
	const TTest *const wrong[] = {is_right, is_wrong, is_right};
	const TTest *const killed[] = {is_right, ends_all};
	ck_assert_int_eq(run_aside(wrong, HT_ARRAY_SIZE(wrong), &out), 1);
	const char *first = strstr(out, "100%: Checks: 1, Failures: 0, Errors: 0\n");
	ck_assert_msg(first && strstr(first, "\n0%: Checks: 1, Failures: 1, Errors: 0\n") &&
			      strstr(first + 1, "\n100%: Checks: 1, Failures: 0, Errors: 0\n") &&
			      strstr(first, "as intended"),
		"%s", out);
	free(out);
	ck_assert_int_eq(run_aside(killed, HT_ARRAY_SIZE(killed), &out), 1);
	ck_assert_msg(strstr(out, "ends_all: the process of this test"), "%s", out);
	free(out);
}

/* --- what killed tests leave --- */

/* Makes a directory as another test leaves it, last changed `hours` ago, with a file in a folder.
 * Returns its path, malloc'd. */
static char *left_directory(const char *name, unsigned hours)
{
	char below[64];
	snprintf(below, sizeof(below), "%s/folder", name);
	char *path = tmpdir_path(name), *folder = tmpdir_path(below);
	ck_assert(!mkdir(path, 0700) && !mkdir(folder, 0700));
	HT_FREED char *file = files_path(folder, "file");
	files_write(file, "left");
	const struct timespec then = {.tv_sec = time(NULL) - 3600 * (time_t)hours};
	const struct timespec times[] = {then, then};
	ck_assert_int_eq(utimensat(AT_FDCWD, path, times, 0), 0);
	free(folder);
	return path;
}

static void hold(const void *path)
{
	child_ready(flock(open(path, O_RDONLY | O_CLOEXEC), LOCK_EX | LOCK_NB));
	child_wait();
}

HT_TEST(removes_leftover_files)
{
	HT_FREED char *parent = tmpdir_path("");
	HT_FREED char *left = left_directory("heaptap-test.left", 2);
	HT_FREED char *young = left_directory("heaptap-test.young", 0);
	HT_FREED char *used = left_directory("heaptap-test.used", 2);
	HT_FREED char *other = left_directory("another-test.left", 2);
	HT_FREED char *link = tmpdir_path("heaptap-test.link");
	ck_assert_int_eq(symlink(other, link), 0);
	struct child user = child_fork(hold, used);
	ck_assert_int_eq(user.value, 0);
	tmpdir_remove_left(parent);
	ck_assert_int_ne(access(left, F_OK), 0);
	ck_assert_int_eq(access(young, F_OK), 0);
	ck_assert_int_eq(access(used, F_OK), 0);
	ck_assert_int_eq(access(other, F_OK), 0);
	child_kill(&user);
	tmpdir_remove_left(parent);
	ck_assert_int_ne(access(used, F_OK), 0);
}

/* The directory stays while a process of its test may use it. */
HT_TEST(keeps_files_in_use)
{
	HT_FREED char *path = tmpdir_path("");
	const struct timespec times[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
	ck_assert_int_eq(utimensat(AT_FDCWD, path, times, 0), 0);
	char *end = strrchr(path, '/');
	ck_assert(end && !end[1]);
	*end = '\0';
	end = strrchr(path, '/');
	ck_assert_ptr_nonnull(end);
	*end = '\0';
	tmpdir_remove_left(path);
	*end = '/';
	ck_assert_int_eq(access(path, F_OK), 0);
}

/* The output of heaptap at the end of a capture that left nothing. */
#define ATTACH                                                                                     \
	"{\"schema\":\"heaptap.attach/1\",\"level\":0,\"why\":\"\",\"slots_restored\":1,"          \
	"\"slots_changed\":0,\"slots_tapped\":1,\"attach_ns\":1,\"detach_ns\":1,\"stop_ns\":1,"    \
	"\"events\":9,\"threads_met\":{\"asleep\":1,\"awake\":1,\"inside\":0},"

static const struct soaked {
	const char *rest; /* the rest of heaptap's output, from "verify" on; %s stands for `fds` */
	const char *fds;
	int heaptap, status; /* heaptap's exit code, and the expected one of scripts/soak */
} soaked[] = {
	{"\"ended\":\"signal\",\"damage\":0,\"dropped_events\":0", "equal", 0, 0},
	{"\"ended\":\"signal\",\"damage\":0,\"dropped_events\":5", "equal", 7, 0},
	{"\"ended\":\"duration\",\"damage\":0,\"dropped_events\":5", "equal", 7, 0},
	{"\"ended\":\"signal\",\"damage\":0,\"dropped_events\":5", "one more", 7, 1},
	{"\"ended\":\"signal\",\"damage\":0,\"dropped_events\":0", "equal", 7, 1},
	{"\"ended\":\"signal\",\"damage\":1,\"dropped_events\":5", "equal", 7, 1},
	{"\"ended\":\"disk_full\",\"damage\":0,\"dropped_events\":5", "equal", 7, 1},
	{"\"ended\":\"signal\",\"damage\":0,\"dropped_events\":5", "equal", 6, 1},
	{"\"ended\":\"signal\",\"damage\":0,\"dropped_events\":0", "equal", 1, 1},
};

static void link_built(const char *name, const char *as)
{
	char *built = realpath(run_built(name), NULL), *path = tmpdir_path(as);
	ck_assert_ptr_nonnull(built);
	ck_assert_int_eq(symlink(built, path), 0);
	free(built);
	free(path);
}

/* Runs two cycles of scripts/soak in a separate tree, with a fake heaptap that only prints a given
 * result. */
HT_TEST(a_soak_counts_dropped_events)
{
	static const char *const directories[] = {"scripts", "bin", "out", "out/release"};
	char body[1200], path[4200];
	for (size_t i = 0; i < HT_ARRAY_SIZE(directories); i++)
		ck_assert_int_eq(mkdir(tmpdir_path(directories[i]), 0700), 0);
	char *script = realpath("scripts/soak", NULL);
	ck_assert_int_eq(symlink(script, tmpdir_path("scripts/soak")), 0);
	link_built("tests", "out/release/tests");
	program("bin/make", "");
	snprintf(path, sizeof(path), "PATH=%s:%s", tmpdir_path("bin"), getenv("PATH"));
	for (size_t i = 0; i < HT_ARRAY_SIZE(soaked); i++) {
		const struct soaked *s = &soaked[i];
		char *out;
		snprintf(body, sizeof(body),
			"echo '" ATTACH
			"%s,\"verify\":{\"maps\":\"equal\",\"fds\":\"%s\",\"slots\":\"equal\","
			"\"text\":\"equal\",\"threads\":\"equal\",\"signals\":\"equal\"}}'\nexit "
			"%d",
			s->rest, s->fds, s->heaptap);
		free(program("out/release/heaptap", body));
		int status = run_program(
			(const char *[]){"/usr/bin/env", "-u", "CK_RUN_CASE", "-u", "VARIANT", path,
				tmpdir_path("scripts/soak"), "--cycles", "2", "--kind", "threads",
				"--seed", "1", NULL},
			SCRIPT_MS, &out, NULL);
		ck_assert_msg(status == s->status, "%zu: %d: %s", i, status, out);
		ck_assert_msg(
			status || strstr(out, s->heaptap == 7 ? "; 2 cycles with events dropped\n"
							      : "; 0 cycles with events dropped\n"),
			"%zu: %s", i, out);
		free(out);
	}
}

static const struct swept {
	const char *argument[3], *line; /* `line`: expected in the output */
	int status;
} swept[] = {
	{{"run"}, "run places /case\n100%: Checks: 3, Failures: 0, Errors: 0\nrun: no failure, ",
		0},
	{{"--all", "run:one"}, "run all one/case\n", 0},
	{{"--calls", "7-", "run"}, "run 7- /case\n", 0},
	{{"rescue"}, "rescue all /case\n", 1},
	{{"kills:none"}, "kills:none: FAILED after ", 1},
	{{"rescue", "run"}, "\nrun: no failure, ", 1},
	{{"rescue", "run"}, "\n2 sweeps, 1 failed\n", 1},
	{{"faults"}, "faults: no failure, ", 0},
	{{"changes"}, "changes: FAILED after ", 1},
	{{"nothing"}, "", 2},
	{{"--calls"}, "", 2},
};

/* Runs scripts/sweep in a separate tree, with fake tests that only print how they were run. */
HT_TEST(a_sweep_runs_the_given_sweeps)
{
	static const char *const directories[] = {"scripts", "bin", "out", "out/release",
		"out/release/tests", "out/release/tests/integration"};
	char path[4200];
	for (size_t i = 0; i < HT_ARRAY_SIZE(directories); i++)
		ck_assert_int_eq(mkdir(tmpdir_path(directories[i]), 0700), 0);
	char *script = realpath("scripts/sweep", NULL);
	ck_assert_int_eq(symlink(script, tmpdir_path("scripts/sweep")), 0);
	program("bin/make", "");
	program("out/release/tests/integration/test_run_killed",
		"[ $CK_TIMEOUT_MULTIPLIER -ge 10000 ] || exit 1\n"
		"echo run $HEAPTAP_SWEEP $CK_RUN_CASE/case\n"
		"echo '100%: Checks: 3, Failures: 0, Errors: 0'");
	program("out/release/tests/integration/test_sweep_rescue",
		"echo rescue $HEAPTAP_SWEEP $CK_RUN_CASE/case\n"
		"echo '50%: Checks: 2, Failures: 1, Errors: 0'; exit 1");
	program("out/release/tests/integration/test_sweep",
		"echo '100%: Checks: 0, Failures: 0, Errors: 0'");
	program("out/release/tests/integration/test_faults",
		"echo 'Value of cmsg->duration (-2124633648) too big to pack'\n"
		"echo '0%: Checks: 1, Failures: 0, Errors: 1'\n"
		"echo 'a.c:1:E:case:case:0: (after this point) Early exit with return value 2'; "
		"exit 1");
	program("out/release/tests/integration/test_change_sweep",
		"echo 'Value of cmsg->duration (-2124633648) too big to pack'\n"
		"echo '0%: Checks: 2, Failures: 1, Errors: 1'\n"
		"echo 'a.c:1:E:case:case:0: (after this point) Early exit with return value 2'\n"
		"echo 'a.c:1:F:other:other:0: it died'; exit 1");
	snprintf(path, sizeof(path), "PATH=%s:%s", tmpdir_path("bin"), getenv("PATH"));
	for (size_t i = 0; i < HT_ARRAY_SIZE(swept); i++) {
		const struct swept *s = &swept[i];
		char *out;
		int status =
			run_program((const char *[]){"/usr/bin/env", "-u", "CK_RUN_CASE", "-u",
					    "VARIANT", path, tmpdir_path("scripts/sweep"),
					    s->argument[0], s->argument[1], s->argument[2], NULL},
				SCRIPT_MS, &out, NULL);
		ck_assert_msg(
			status == s->status && strstr(out, s->line), "%zu: %d: %s", i, status, out);
		free(out);
	}
}

HT_SUITE("integration/run_tests")
