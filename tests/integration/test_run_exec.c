/* SPDX-License-Identifier: Apache-2.0
 *
 * `heaptap run` of a command that execs another program: the new program has its own trace, from
 * its first allocation, and runs as without heaptap. A program that cannot be recorded runs,
 * too.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/command.h"
#include "tests/support/files.h"
#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/report.h"
#include "tests/support/run.h"
#include "tests/support/tmpdir.h"
#include "tests/support/tracefile.h"

#define RUN_MS	      60000
#define WORDS_MAX     24
#define EARLY_BLOCKS  39   /* all blocks that early allocates */
#define BECOME_BLOCKS 5	   /* blocks that become allocates */
#define BECOME_SIZE   3011 /* bytes of each block */
#define PROGRAMS_MAX  17   /* the most programs that heaptap records */
#define SHORT_RUNS    12   /* runs of a program that ends at once */

struct result {
	int status;
	char *out, *err;
};

/* Returns the path of the trace of program `number`, counted from 1. Static buffer. */
static const char *trace_path(unsigned number)
{
	static char path[4096];
	char name[32] = "exec.htap";
	if (number > 1)
		snprintf(name, sizeof(name), "exec.%u.htap", number);
	HT_FREED char *full = tmpdir_path(name);
	snprintf(path, sizeof(path), "%s", full);
	return path;
}

static bool has_trace(unsigned number)
{
	return access(trace_path(number), F_OK) == 0;
}

/* The arguments of heaptap run: options, "--", the command. */
struct words {
	const char *argv[WORDS_MAX];
};

static struct words words_of(const char *const words[])
{
	static char path[4096];
	snprintf(path, sizeof(path), "%s", trace_path(1));
	struct words ret = {{run_built("heaptap"), "run", "-f", "-o", path}};
	for (size_t at = 5; *words && at < WORDS_MAX - 1; words++)
		ret.argv[at++] = *words;
	return ret;
}

static struct result run(const char *const words[])
{
	struct words all = words_of(words);
	struct result result;
	result.status = run_program(all.argv, RUN_MS, &result.out, &result.err);
	return result;
}

static void result_deinit(struct result *result)
{
	free(result->out);
	free(result->err);
}

static void check_result(const struct result *result, int status)
{
	ck_assert_msg(
		result->status == status, "%d: %s%s", result->status, result->out, result->err);
}

static void check_blocks(unsigned number, uint64_t blocks)
{
	json_auto_t *report = report_load(trace_path(number));
	ck_assert_uint_eq(report_u64(report, "totals.allocations"), blocks);
	ck_assert_uint_eq(report_u64(report, "capture.dropped_events"), 0);
}

/* --- what is recorded --- */

static void check_becomes_early(const char *way)
{
	struct result result = run((const char *[]){"--", run_built("tests/targets/become"), way,
		run_built("tests/targets/early"), "x", NULL});
	check_result(&result, 0);
	ck_assert_msg(strstr(result.err, "become became another program, which is recorded, too"),
		"%s: %s", way, result.err);
	ck_assert_msg(!strstr(result.err, "had begun"), "%s: %s", way, result.err);
	/* heaptap names the trace of the first program, and after the last one what to do next. */
	const char *first = strstr(result.err, "trace: "),
		   *last = strstr(result.err, "heaptap: early is the last of 2 programs"),
		   *next = strstr(result.err, "next:  heaptap report ");
	ck_assert_msg(first && last && next && first < last && last < next &&
			      !strstr(next + 1, "next:  "),
		"%s: %s", way, result.err);
	ck_assert_uint_eq(tracefile_blocks_of(trace_path(1), BECOME_SIZE), BECOME_BLOCKS);
	ck_assert_msg(has_trace(2), "%s: %s", way, result.err);
	check_blocks(2, EARLY_BLOCKS);
	result_deinit(&result);
	unlink(trace_path(2));
}

HT_TEST(exec_by_any_function)
{
	static const char *const ways[] = {"execve", "execv", "execvp", "execvpe", "execl",
		"execlp", "execle", "fexecve", "execveat", "syscall"};
	for (size_t i = 0; i < HT_ARRAY_SIZE(ways); i++)
		check_becomes_early(ways[i]);
}

HT_TEST(exec_in_another_thread)
{
	check_becomes_early("thread");
}

HT_TEST(exec_in_a_signal_handler)
{
	check_becomes_early("handler");
}

HT_TEST(beside_a_child_in_vfork)
{
	check_becomes_early("vfork");
}

/* Wrappers, which only exec another program: each program has a trace. */
HT_TEST(through_wrappers)
{
	struct result result = run((const char *[]){"--", "env", "A=1", "nice", "-n", "1", "sh",
		"-c", "exec \"$@\"", "sh", run_built("tests/targets/early"), NULL});
	check_result(&result, 0);
	check_blocks(4, EARLY_BLOCKS);
	ck_assert(!has_trace(5));
	result_deinit(&result);
}

HT_TEST(exact_to_the_last_event)
{
	struct words all = words_of((const char *[]){
		"-q", "--", "env", run_built("tests/targets/ledger"), "-l", "-t", "4", NULL});
	struct command command;
	struct run run;
	command_start(&command, &run, all.argv, RUN_MS);
	victim_send(&command.victim, "go");
	victim_send(&command.victim, "stop");
	char *books = victim_line(&command.victim, RUN_MS);
	json_t *ledger = report_parse(books);
	ck_assert_int_eq(run_wait(&run, RUN_MS), 0);
	/* 4 threads allocate 32 blocks each before the ledger begins to count. */
	check_blocks(2, report_u64(ledger, "allocations") + 4 * 32);
	json_decref(ledger);
	free(books);
	run_deinit(&run);
	command_deinit(&command);
}

/* --- the program notices nothing --- */

HT_TEST(program_inherits_the_same_state)
{
	char *early = realpath(run_built("tests/targets/early"), NULL), *direct;
	ck_assert_int_eq(
		run_program((const char *[]){"env", early, "state", NULL}, RUN_MS, &direct, NULL),
		0);
	struct result result = run((const char *[]){"-q", "--", "env", early, "state", NULL});
	check_result(&result, 0);
	ck_assert_ptr_nonnull(strstr(direct, "death signal"));
	/* The parents differ: children of the test die with it, those of heaptap do not. */
	char *a = strstr(direct, "death signal"), *b = strstr(result.out, "death signal");
	ck_assert_ptr_nonnull(b);
	ck_assert_int_eq(a - direct, b - result.out);
	ck_assert_int_eq(strncmp(direct, result.out, (size_t)(a - direct)), 0);
	ck_assert_str_eq(strchr(a, '\n'), strchr(b, '\n'));
	ck_assert_str_eq(result.err, "");
	result_deinit(&result);
	free(direct);
	free(early);
}

HT_TEST(ends_as_it_ends)
{
	struct result result =
		run((const char *[]){"-q", "--", "env", "sh", "-c", "exit 42", NULL});
	check_result(&result, 42);
	result_deinit(&result);
	result = run((const char *[]){"-q", "--", "env", "sh", "-c", "kill -TERM $$", NULL});
	check_result(&result, 128 + SIGTERM);
	result_deinit(&result);
}

/* Starts busy by env, under heaptap with -d `time`. The caller checks that busy is clean when -d
 * ends. */
static void start_busy(struct run *run, struct command *command, const char *time)
{
	struct words all = words_of((const char *[]){
		"-d", time, "--", "env", run_built("tests/targets/busy"), "-t", "2", NULL});
	command_start(command, run, all.argv, RUN_MS);
}

/* Does the process map ld.so.cache? heaptap holds a program at the dynamic linker's munmap of that
 * mapping; the munmap must have been made afterwards. */
static bool has_cache(pid_t pid)
{
	char path[32], *maps;
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	ck_assert_int_eq(run_program((const char *[]){"cat", path, NULL}, RUN_MS, &maps, NULL), 0);
	ck_assert_ptr_nonnull(strstr(maps, "libc.so"));
	bool has = strstr(maps, "ld.so.cache") != NULL;
	free(maps);
	return has;
}

HT_TEST(time_is_for_all)
{
	struct command command;
	struct run run;
	start_busy(&run, &command, "1500ms");
	ck_assert(!has_cache(command.victim.pid));
	run_until(has_trace(2), RUN_MS);
	ck_assert(procsnap_is_clean(command.victim.pid));
	victim_prove_alive(&command.victim);
	victim_send(&command.victim, "stop");
	ck_assert_int_eq(run_wait(&run, RUN_MS), 0);
	run_deinit(&run);
	command_deinit(&command);
}

/* --- what is not recorded runs --- */

HT_TEST(unrecordable_programs_run)
{
	struct words all = words_of((const char *[]){
		"--", "env", run_built("tests/targets/linked-static"), "-t", "1", NULL});
	struct command command;
	struct run run;
	command_start(&command, &run, all.argv, RUN_MS);
	run_until(has_trace(1), RUN_MS);
	victim_prove_alive(&command.victim);
	victim_send(&command.victim, "stop");
	ck_assert_int_eq(run_wait(&run, RUN_MS), 0);
	char *err = run_err(&run);
	ck_assert_msg(strstr(err, "env became another program, which is not recorded"), "%s", err);
	ck_assert(!has_trace(2));
	free(err);
	run_deinit(&run);
	command_deinit(&command);
}

/* heaptap must name a program that often ends before heaptap looks at it again. With -x it exits at
 * once, with a usage message. */
HT_TEST(names_programs_that_end_at_once)
{
	for (unsigned i = 0; i < SHORT_RUNS; i++) {
		struct result result = run((const char *[]){
			"--", "env", run_built("tests/targets/linked-static"), "-x", NULL});
		ck_assert_msg(
			strstr(result.err, "env became another program, which is not recorded"),
			"%u: %s", i, result.err);
		result_deinit(&result);
	}
}

static void check_rights(const char *const argv[], const char *directory)
{
	struct run run;
	run_start_as_nobody(&run, argv);
	ck_assert_int_eq(run_wait(&run, RUN_MS), 0);
	char *out = run_out(&run), *err = run_err(&run);
	ck_assert_msg(!strcmp(out, "0\n"), "%s%s", out, err);
	ck_assert_uint_eq(files_count(directory), 2);
	run_deinit(&run);
	free(out);
	free(err);
}

HT_TEST(rights_of_its_own)
{
	if (geteuid() != 0) {
		printf("skipped: rights_of_its_own: needs root\n");
		return;
	}
	char *directory = files_directory(), *trace = files_path(directory, "x.htap");
	char *parent = files_path(directory, ".."), *own = files_path(directory, "id");
	ck_assert_int_eq(chown(directory, 65534, 65534), 0);
	ck_assert_int_eq(chmod(parent, 0711), 0);
	ck_assert_int_eq(
		run_program((const char *[]){"cp", "/usr/bin/id", own, NULL}, RUN_MS, NULL, NULL),
		0);
	ck_assert_int_eq(chmod(own, 04755), 0);
	check_rights((const char *[]){run_built("heaptap"), "run", "-o", trace, "--", "env", own,
			     "-u", NULL},
		directory);
	/* A thread with its own working directory execs the program. */
	check_rights((const char *[]){run_built("heaptap"), "run", "-f", "-o", trace, "--",
			     run_built("tests/targets/become"), "beside", own, "-u", NULL},
		directory);
	free(own);
	free(parent);
	free(trace);
	free(directory);
}

HT_TEST(own_filter_does_not_kill_the_program)
{
	struct result result = run((const char *[]){
		"--", run_built("tests/targets/become"), "filter", "/bin/true", NULL});
	check_result(&result, 0);
	result_deinit(&result);
}

HT_TEST(records_late_after_an_unseen_exec)
{
	struct result result = run((const char *[]){
		"--", run_built("tests/targets/become"), "inline", "/bin/sleep", "1.5", NULL});
	check_result(&result, 0);
	ck_assert_msg(strstr(result.err, "sleep was already running"), "%s", result.err);
	ck_assert(has_trace(2));
	result_deinit(&result);
}

/* --- bounds --- */

HT_TEST(repeated_execs)
{
	struct result result = run((const char *[]){"--", run_built("tests/targets/become"),
		"again-40", run_built("tests/targets/early"), "x", NULL});
	check_result(&result, 0);
	ck_assert_msg(strstr(result.err, "at most 16 further programs"), "%.4000s", result.err);
	for (unsigned i = 1; i <= PROGRAMS_MAX; i++)
		ck_assert_uint_eq(tracefile_blocks_of(trace_path(i), BECOME_SIZE), BECOME_BLOCKS);
	ck_assert(!has_trace(PROGRAMS_MAX + 1));
	result_deinit(&result);
}

HT_TEST(failing_execs)
{
	struct result result = run((const char *[]){"--", run_built("tests/targets/become"), "vain",
		run_built("tests/targets/early"), NULL});
	check_result(&result, 0);
	check_blocks(1, BECOME_BLOCKS);
	result_deinit(&result);
}

HT_TEST(failing_execs_beside_signals)
{
	check_becomes_early("trapped");
}

HT_SUITE("integration/run_exec")
