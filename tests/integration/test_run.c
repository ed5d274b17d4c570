/* SPDX-License-Identifier: Apache-2.0
 *
 * `heaptap run`: a program is recorded from its first allocation to its last, runs as if it had
 * been started directly, and heaptap exits with its status.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/files.h"
#include "tests/support/ht_check.h"
#include "tests/support/report.h"
#include "tests/support/run.h"
#include "tests/support/tmpdir.h"
#include "tests/support/tracefile.h"

#define RUN_MS	   60000
#define WORDS_MAX  16
#define NOT_RUN	   3
#define LEDGER_SET 32 /* blocks that each ledger thread allocates before it begins to count */

static const char *trace_path(void)
{
	static char *path;
	path = path ? path : tmpdir_path("run.htap");
	return path;
}

static bool has_trace(void)
{
	return access(trace_path(), F_OK) == 0;
}

struct result {
	int status;
	char *out, *err;
};

/* Starts `command` with `heaptap run` and further `options`; `prepare` as for
 * run_start_prepared. */
static void start_run(struct run *run, const char *const options[], const char *const command[],
	void (*prepare)(void *context), void *context)
{
	const char *argv[WORDS_MAX + 8] = {
		run_built("heaptap"), "run", "-f", "-q", "-o", trace_path()};
	size_t count = 6;
	for (; options && *options && count < WORDS_MAX; options++)
		argv[count++] = *options;
	argv[count++] = "--";
	for (; *command && count < WORDS_MAX + 7; command++)
		argv[count++] = *command;
	run_start_prepared(run, argv, prepare, context);
}

static struct result run_prepared(
	const char *const command[], void (*prepare)(void *context), void *context)
{
	struct run run;
	start_run(&run, NULL, command, prepare, context);
	struct result result = {.status = run_wait(&run, RUN_MS)};
	result.out = run_out(&run);
	result.err = run_err(&run);
	run_deinit(&run);
	return result;
}

static struct result run(const char *const command[])
{
	return run_prepared(command, NULL, NULL);
}

static void result_deinit(struct result *result)
{
	free(result->out);
	free(result->err);
}

/* --- what is recorded --- */

static void check_early(const char *program, bool has_preinit)
{
	static const struct {
		uint64_t size, blocks;
	} takes[] = {{1009, 3}, {2003, 5}, {4001, 7}, {16001, 13}};
	struct result result = run((const char *[]){run_built(program), NULL});
	ck_assert_msg(result.status == 0, "%d: %s", result.status, result.err);
	ck_assert_str_eq(result.err, "");
	for (size_t i = 0; i < HT_ARRAY_SIZE(takes); i++)
		ck_assert_uint_eq(
			tracefile_blocks_of(trace_path(), takes[i].size), takes[i].blocks);
	ck_assert_uint_eq(tracefile_blocks_of(trace_path(), 8009), has_preinit ? 11 : 0);
	json_t *report = report_load(trace_path());
	ck_assert_uint_eq(report_u64(report, "totals.allocations"), has_preinit ? 39 : 28);
	ck_assert_uint_eq(report_u64(report, "totals.outstanding_blocks"), has_preinit ? 39 : 28);
	ck_assert_uint_eq(report_u64(report, "capture.dropped_events"), 0);
	/* Stacks of constructors end in the dynamic linker. musl's has no unwind tables, so there
	 * they are truncated. */
	if (has_preinit)
		ck_assert_uint_eq(report_u64(report, "capture.truncated_stacks"), 0);
	json_decref(report);
	result_deinit(&result);
}

HT_TEST(from_the_first_allocation_to_the_last)
{
	check_early("tests/targets/early", true);
	check_early("tests/targets/early-lazy", true);
}

HT_TEST(from_the_first_allocation_of_musl)
{
	if (access(run_built("tests/targets/early-musl"), X_OK) != 0)
		printf("skipped: from_the_first_allocation_of_musl: no musl-gcc\n");
	else
		check_early("tests/targets/early-musl", false);
}

static void feed(void *context)
{
	int fd = memfd_create("input", MFD_CLOEXEC);
	if (write(fd, context, strlen(context)) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		_exit(125);
	dup2(fd, STDIN_FILENO);
}

static void check_ledger(const char *program, const char *threads)
{
	uint64_t taken = LEDGER_SET * strtoull(threads, NULL, 10);
	struct result result =
		run_prepared((const char *[]){run_built(program), "-l", "-t", threads, NULL}, feed,
			(void *)"go\nstop\n");
	ck_assert_msg(result.status == 0, "%d: %s", result.status, result.err);
	char *books = strchr(result.out, '{');
	ck_assert_ptr_nonnull(books);
	json_t *ledger = report_parse(books), *report = report_load(trace_path());
	ck_assert_uint_eq(report_u64(report, "capture.dropped_events"), 0);
	ck_assert_uint_eq(report_u64(report, "totals.allocations"),
		report_u64(ledger, "allocations") + taken);
	ck_assert_uint_eq(report_u64(report, "totals.frees"),
		report_u64(ledger, "frees") + report_u64(ledger, "before_frees"));
	ck_assert_uint_eq(report_u64(report, "totals.outstanding_blocks"),
		report_u64(ledger, "outstanding_blocks") + taken -
			report_u64(ledger, "before_frees"));
	json_decref(ledger);
	json_decref(report);
	result_deinit(&result);
}

HT_TEST(exact_to_the_last_event)
{
	check_ledger("tests/targets/ledger", "4");
}

HT_TEST(otherwise_linked)
{
	check_ledger("tests/targets/ledger-own", "2");
	check_ledger("tests/targets/ledger-nopie", "2");
}

/* Text relocations: the dynamic linker has already written to the page of the entry point when
 * heaptap stops the command. */
HT_TEST(with_text_relocations)
{
	struct run run;
	start_run(
		&run, NULL, (const char *[]){run_built("tests/targets/textrel"), NULL}, NULL, NULL);
	ck_assert_int_eq(run_wait(&run, RUN_MS), 0);
	json_t *report = report_load(trace_path());
	ck_assert_uint_ge(report_u64(report, "totals.allocations"), 1);
	json_decref(report);
	run_deinit(&run);
}

/* The linked-in allocator calls its own functions when it starts. Only the ledger frees blocks. */
HT_TEST(linked_in_and_called_straight)
{
	struct run run;
	start_run(&run, (const char *[]){"--hook", "auto", NULL},
		(const char *[]){run_built("tests/targets/ledger-direct"), "-l", "-t", "2", NULL},
		feed, (void *)"go\nstop\n");
	ck_assert_int_eq(run_wait(&run, RUN_MS), 0);
	char *out = run_out(&run);
	json_t *ledger = report_parse(strchr(out, '{')), *report = report_load(trace_path());
	ck_assert_uint_eq(report_u64(report, "totals.frees"),
		report_u64(ledger, "frees") + report_u64(ledger, "before_frees"));
	ck_assert_uint_ge(report_u64(report, "totals.allocations"),
		report_u64(ledger, "allocations") + 2 * LEDGER_SET);
	json_decref(ledger);
	json_decref(report);
	free(out);
	run_deinit(&run);
}

HT_TEST(real_programs)
{
	static const char *const commands[][5] = {{"node", "-e", "console.log(6 * 7)"},
		{"python3", "-c", "print(6 * 7)"}, {"sh", "-c", "echo 42 | cat"}};
	for (size_t i = 0; i < HT_ARRAY_SIZE(commands); i++) {
		struct result result = run(commands[i]);
		ck_assert_msg(result.status == 0, "%s: %s", commands[i][0], result.err);
		ck_assert_str_eq(result.out, "42\n");
		json_t *report = report_load(trace_path());
		ck_assert_uint_gt(report_u64(report, "totals.allocations"), 0);
		json_decref(report);
		result_deinit(&result);
	}
}

/* --- how it ends --- */

HT_TEST(exit_status)
{
	static const struct {
		const char *script;
		int status;
	} ends[] = {{"exit 0", 0}, {"exit 1", 1}, {"exit 42", 42}, {"exit 255", 255},
		{"kill -TERM $$", 128 + SIGTERM}, {"kill -SEGV $$", 128 + SIGSEGV},
		{"kill -KILL $$", 128 + SIGKILL}};
	for (size_t i = 0; i < HT_ARRAY_SIZE(ends); i++) {
		struct result result = run((const char *[]){"sh", "-c", ends[i].script, NULL});
		ck_assert_msg(result.status == ends[i].status, "%s: %d, %s", ends[i].script,
			result.status, result.err);
		ck_assert_str_eq(result.err, "");
		ck_assert(has_trace());
		result_deinit(&result);
	}
}

HT_TEST(no_core_of_heaptap)
{
	struct run run;
	start_run(&run, NULL, (const char *[]){"sh", "-c", "kill -SEGV $$", NULL}, NULL, NULL);
	run_wait(&run, RUN_MS);
	ck_assert(WIFSIGNALED(run.status) && !WCOREDUMP(run.status));
	run_deinit(&run);
}

static char *write_file(const char *name, mode_t mode, const char *text)
{
	char *path = tmpdir_path(name);
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, mode);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	return path;
}

static void check_not_run(const char *const command[], int status, const char *says)
{
	struct result result = run(command);
	ck_assert_msg(result.status == status, "%s: %d, %s", command[0], result.status, result.err);
	ck_assert_msg(strstr(result.err, says), "%s", result.err);
	ck_assert_str_eq(result.out, "");
	ck_assert(!has_trace());
	result_deinit(&result);
}

HT_TEST(cannot_be_run)
{
	HT_FREED char *plain = write_file("plain", 0644, "#!/bin/sh\necho ran\n");
	HT_FREED char *lost = write_file("lost", 0755, "#!/no/such/interpreter\n");
	check_not_run((const char *[]){"no-such-command", NULL}, 127, "no directory of PATH");
	check_not_run((const char *[]){"/no/such/command", NULL}, 127, "No such file");
	check_not_run((const char *[]){lost, NULL}, 127, "its interpreter /no/such/interpreter");
	check_not_run((const char *[]){plain, NULL}, 126, "chmod +x");
	check_not_run((const char *[]){"/etc", NULL}, 126, "Permission denied");
}

/* The errno of the program's exec; 0: the kernel runs it. */
static int exec_error(const char *program)
{
	int fd[2], sys = 0;
	ck_assert_int_eq(pipe2(fd, O_CLOEXEC), 0);
	pid_t pid = fork();
	if (pid == 0) {
		execl(program, program, NULL);
		sys = errno;
		_exit(write(fd[1], &sys, sizeof(sys)) != sizeof(sys));
	}
	close(fd[1]);
	ck_assert_int_ge(read(fd[0], &sys, sizeof(sys)), 0);
	close(fd[0]);
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	return sys;
}

HT_TEST(refused_before_anything_ran)
{
	const char *const says = "statically linked";
	check_not_run(
		(const char *[]){run_built("tests/targets/linked-static"), NULL}, NOT_RUN, says);
	check_not_run((const char *[]){run_built("tests/targets/linked-static-pie"), NULL}, NOT_RUN,
		says);
	/* If the kernel runs no 32-bit programs, heaptap must fail like execvp, and not take the
	 * file for a script. */
	const char *program = run_built("tests/targets/idle32");
	bool knows = exec_error(program) == 0;
	check_not_run((const char *[]){program, NULL}, knows ? NOT_RUN : 126,
		knows ? "x86-64" : "no programs of its kind");
}

HT_TEST(output_that_is_there)
{
	char *path = write_file("there.htap", 0644, "mine"), *err, *out;
	int status = run_program(
		(const char *[]){run_built("heaptap"), "run", "-o", path, "echo", "ran", NULL},
		RUN_MS, &out, &err);
	ck_assert_int_eq(status, 2);
	ck_assert_msg(strstr(err, "there.htap"), "%s", err);
	ck_assert_str_eq(out, "");
	free(out);
	free(err);
	free(path);
}

/* heaptap as an ordinary user. */
static struct result run_as_nobody(const char *const command[])
{
	const char *argv[WORDS_MAX] = {run_built("heaptap"), "run", "-f", "-q", "-o"};
	char *directory = files_directory(), *trace = files_path(directory, "other-user.htap");
	struct run run;
	argv[5] = trace;
	for (size_t at = 6; *command && at < WORDS_MAX - 1; command++)
		argv[at++] = *command;
	char *parent = files_path(directory, "..");
	ck_assert_int_eq(chown(directory, 65534, 65534), 0);
	ck_assert_int_eq(chmod(parent, 0711), 0);
	free(parent);
	run_start_as_nobody(&run, argv);
	struct result result = {.status = run_wait(&run, RUN_MS)};
	result.out = run_out(&run);
	result.err = run_err(&run);
	ck_assert_uint_eq(files_count(directory), result.status == 0);
	run_deinit(&run);
	free(trace);
	free(directory);
	return result;
}

HT_TEST(without_root)
{
	if (geteuid() != 0) {
		printf("skipped: without_root: needs root\n");
		return;
	}
	struct result result = run_as_nobody((const char *[]){"id", "-u", NULL});
	ck_assert_msg(result.status == 0, "%d: %s", result.status, result.err);
	ck_assert_str_eq(result.out, "65534\n");
	result_deinit(&result);
}

HT_TEST(rights_of_its_own)
{
	if (geteuid() != 0) {
		printf("skipped: rights_of_its_own: needs root\n");
		return;
	}
	struct result result = run_as_nobody((const char *[]){"su", "-c", "id", NULL});
	ck_assert_int_eq(result.status, NOT_RUN);
	ck_assert_msg(strstr(result.err, "privileges of its own"), "%s", result.err);
	result_deinit(&result);
	result = run((const char *[]){"su", "nobody", "-s", "/bin/sh", "-c", "id -u", NULL});
	ck_assert_msg(result.status == 0, "%d: %s", result.status, result.err);
	ck_assert_str_eq(result.out, "65534\n");
	result_deinit(&result);
}

/* Runs `text` as an executable script, with and without heaptap: output and status must be the
 * same. */
static void check_script(const char *text, unsigned traces)
{
	char *script = write_file("script", 0755, text), *out;
	int status = run_program((const char *[]){script, "one", NULL}, RUN_MS, &out, NULL);
	struct result result = run((const char *[]){script, "one", NULL});
	ck_assert_msg(result.status == status, "%s%d: %s", text, result.status, result.err);
	ck_assert_str_eq(result.out, out);
	ck_assert_str_eq(result.err, "");
	for (unsigned i = 1; i <= traces; i++) {
		char *path = tmpdir_path(i == 1 ? "run.htap" : "run.2.htap");
		json_t *report = report_load(path);
		ck_assert_uint_gt(report_u64(report, "totals.allocations"), 0);
		json_decref(report);
		unlink(path);
		free(path);
	}
	unlink(script);
	result_deinit(&result);
	free(script);
	free(out);
}

/* Scripts of each kind that the kernel, or execvp(3), runs. */
HT_TEST(scripts)
{
	check_script("#!/bin/sh\necho \"$0 $1\"\nexit 3\n", 1);
	char text[4200] = "#!", cwd[1024];
	ck_assert_ptr_nonnull(getcwd(cwd, sizeof(cwd)));
	for (const char *at = cwd; (at = strchr(at, '/')) && at[1]; at++)
		strncat(text, "../", sizeof(text) - strlen(text) - 1);
	strncat(text, "bin/sh\necho \"$0 $1\"\nexit 3\n", sizeof(text) - strlen(text) - 1);
	check_script(text, 1);
	check_script("#! /usr/bin/env bash\necho \"$0 $1\"\nexit 3\n", 2);
	check_script("#!/usr/bin/env -S sh -e\necho \"$0 $1\"\nfalse\n", 2);
	check_script("#!/usr/bin/env -S node --stack-size=900\n"
		     "console.log(process.execArgv[0], process.argv[2])\n",
		2);
}

HT_TEST(scripts_of_scripts)
{
	HT_FREED char *inner = write_file("inner", 0755, "#!/bin/sh\necho inner \"$0 $1 $2\"\n");
	char text[4200], *expected;
	snprintf(text, sizeof(text), "#!%s\n", inner);
	HT_FREED char *outer = write_file("outer", 0755, text);
	struct result result = run((const char *[]){outer, "one", NULL});
	ck_assert_int_gt(asprintf(&expected, "inner %s %s one\n", inner, outer), 0);
	ck_assert_str_eq(result.out, expected);
	ck_assert(has_trace());
	result_deinit(&result);
	free(expected);
}

/* Without "#!" execvp(3) runs the script by sh; heaptap must do the same. */
HT_TEST(a_script_without_interpreter)
{
	char *bare = write_file("bare", 0755, "echo bare \"$0 $1\"\n"), *expected;
	struct result result = run((const char *[]){bare, "one", NULL});
	ck_assert_int_gt(asprintf(&expected, "bare %s one\n", bare), 0);
	ck_assert_str_eq(result.out, expected);
	result_deinit(&result);
	free(expected);
	free(bare);
}

HT_TEST(a_script_with_windows_line_ends)
{
	HT_FREED char *script = write_file("script", 0755, "#!/bin/sh\r\necho ran\r\n");
	check_not_run((const char *[]){script, NULL}, 127, "CRLF");
}

/* --- without a trace --- */

static void check_no_trace(const char *const command[], int status, const char *says)
{
	struct result result = run(command);
	ck_assert_int_eq(result.status, status);
	ck_assert_msg(
		strstr(result.err, "heaptap: there is no trace of ") && strstr(result.err, says),
		"%s", result.err);
	ck_assert(!has_trace());
	result_deinit(&result);
}

/* heaptap exits with the command's status if that is a failure, else with 1. */
HT_TEST(command_that_ends_before_its_start)
{
	static const char *const linker = "/lib64/ld-linux-x86-64.so.2";
	check_no_trace((const char *[]){linker, "/no/such/program", NULL}, 127, "status 127");
	check_no_trace((const char *[]){linker, "--version", NULL}, 1, "status 0");
	check_no_trace((const char *[]){linker, "--verify", "/bin/sh", NULL}, 1, "status 0");
}

/* env is recorded, but then executes a static program, which is not. */
HT_TEST(program_after_exec_has_no_trace)
{
	struct result result = run((const char *[]){
		"env", run_built("tests/targets/linked-static"), "-l", "-t", "1", NULL});
	ck_assert_msg(strstr(result.err, "env became another program, which is not recorded"), "%s",
		result.err);
	ck_assert(has_trace());
	result_deinit(&result);
}

/* --- as if started directly --- */

static void make_strange(void *context)
{
	static const int ignored[] = {SIGTRAP, SIGINT, SIGPIPE, SIGCHLD, SIGTERM, SIGUSR2};
	sigset_t set;
	(void)context;
	for (size_t i = 0; i < HT_ARRAY_SIZE(ignored); i++)
		signal(ignored[i], SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGTRAP);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGRTMAX);
	sigprocmask(SIG_SETMASK, &set, NULL);
	setpriority(PRIO_PROCESS, 0, 3);
	umask(0027);
	prctl(PR_SET_TIMERSLACK, 12345);
	setrlimit(RLIMIT_NOFILE, &(struct rlimit){200, 300});
	setrlimit(RLIMIT_CORE, &(struct rlimit){4096, 8192});
	if (chdir("/usr") < 0 || dup2(STDERR_FILENO, 97) < 0)
		_exit(125);
	close(STDIN_FILENO);
	setenv("STRANGE", "yes", 1);
}

/* Compares two states line by line. Only the parent-death signal may differ: the test sets it for
 * heaptap, and the command does not inherit it. */
static void check_same(const char *a, const char *b)
{
	for (size_t line = 1; *a || *b; line++) {
		size_t la = strcspn(a, "\n"), lb = strcspn(b, "\n");
		bool same = la == lb && !strncmp(a, b, la);
		bool is_death = !strncmp(a, "death signal 0\n", 15);
		ck_assert_msg(same || is_death, "line %zu: %.*s, directly %.*s", line, (int)la, a,
			(int)lb, b);
		a += la + (a[la] == '\n');
		b += lb + (b[lb] == '\n');
	}
}

static void compare_state(void (*prepare)(void *context))
{
	char *early = realpath(run_built("tests/targets/early"), NULL);
	const char *const command[] = {early, "state", NULL};
	struct run direct;
	run_start_prepared(&direct, command, prepare, NULL);
	ck_assert_int_eq(run_wait(&direct, RUN_MS), 0);
	char *heaptap = realpath(run_built("heaptap"), NULL), *expected = run_out(&direct);
	run_deinit(&direct);
	const char *const argv[] = {
		heaptap, "run", "-f", "-q", "-o", trace_path(), "--", early, "state", NULL};
	struct run under;
	run_start_prepared(&under, argv, prepare, NULL);
	int status = run_wait(&under, RUN_MS);
	char *out = run_out(&under), *err = run_err(&under);
	ck_assert_msg(status == 0, "%d: %s", status, err);
	ck_assert_ptr_nonnull(strstr(out, "signal 5:"));
	check_same(out, expected);
	free(out);
	free(err);
	free(expected);
	free(early);
	free(heaptap);
	run_deinit(&under);
}

HT_TEST(command_inherits_the_same_state)
{
	compare_state(NULL);
}

HT_TEST(command_inherits_an_unusual_parents_state)
{
	compare_state(make_strange);
}

HT_SUITE("integration/run")
