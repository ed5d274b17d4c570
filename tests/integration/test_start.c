/* SPDX-License-Identifier: Apache-2.0
 *
 * State that heaptap inherits: closed descriptors, ignored and blocked signals, small limits, a
 * deleted working directory, another PID namespace. heaptap works, or refuses in one line, and
 * writes its output and its trace to no other file.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/deny.h"
#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/report.h"
#include "tests/support/tap.h"
#include "tests/support/tmpdir.h"
#include "tests/support/victim.h"

#define ANSWER_MS  30000
#define HEAPTAP_MS 60000
#define WORK	   1000u

enum { DONE, INTERNAL, USAGE, REFUSED, NOT_PERMITTED, DETACH_INCOMPLETE = 6 };

/* The state that heaptap inherits. */
struct inherited {
	bool closed[3];
	bool ignored_children, ignored_hangup, ignored_interrupt, blocked_signals;
	struct rlimit files, space, data, stack; /* 0: not changed */
	const char *directory; /* working directory, removed after the start; NULL: not changed */
};

static void inherit(void *context)
{
	const struct inherited *from = context;
	sigset_t all;
	if (from->directory &&
		(mkdir(from->directory, 0700) || chdir(from->directory) || rmdir(from->directory)))
		_exit(126);
	if (from->ignored_children)
		signal(SIGCHLD, SIG_IGN);
	if (from->ignored_hangup)
		signal(SIGHUP, SIG_IGN);
	if (from->ignored_interrupt)
		signal(SIGINT, SIG_IGN);
	sigfillset(&all);
	if (from->blocked_signals)
		sigprocmask(SIG_SETMASK, &all, NULL);
	if (from->files.rlim_max && setrlimit(RLIMIT_NOFILE, &from->files))
		_exit(126);
	if (from->space.rlim_max && setrlimit(RLIMIT_AS, &from->space))
		_exit(126);
	if (from->data.rlim_max && setrlimit(RLIMIT_DATA, &from->data))
		_exit(126);
	if (from->stack.rlim_max && setrlimit(RLIMIT_STACK, &from->stack))
		_exit(126);
	for (int fd = 0; fd < 3; fd++)
		if (from->closed[fd])
			close(fd);
}

static char *heaptap_path(void)
{
	char *path = realpath(run_built("heaptap"), NULL);
	ck_assert_ptr_nonnull(path);
	return path;
}

struct stage {
	struct victim victim;
	struct procsnap *before;
	struct tap tap;
};

static void stage_init(struct stage *stage)
{
	victim_start(&stage->victim, (const char *[]){run_built("tests/targets/actor"), NULL});
	stage->before = procsnap_take(stage->victim.pid, 0);
	stage->tap = (struct tap){.target = stage->victim.pid};
	HT_FREED char *trace = tmpdir_path("start.htap");
	snprintf(stage->tap.trace, sizeof(stage->tap.trace), "%s", trace);
}

static void stage_deinit(struct stage *stage)
{
	procsnap_verify(stage->before, stage->victim.pid);
	victim_prove_alive(&stage->victim);
	victim_stop(&stage->victim);
}

static void attach(struct stage *stage, struct inherited *from)
{
	char pid[16], *heaptap = heaptap_path();
	snprintf(pid, sizeof(pid), "%d", stage->victim.pid);
	run_start_prepared(&stage->tap.run,
		(const char *[]){heaptap, "attach", "-p", pid, "-o", stage->tap.trace,
			"--symbolize", "later", "--json", NULL},
		inherit, from);
	free(heaptap);
}

/* heaptap must have opened "/" on each descriptor that was closed, so that none of its own files
 * gets the number of stdin, stdout or stderr. */
static void check_stand_ins(const struct stage *stage, const struct inherited *from)
{
	for (int fd = 0; fd < 3; fd++) {
		char path[64], link[PATH_MAX] = "";
		snprintf(path, sizeof(path), "/proc/%d/fd/%d", stage->tap.run.pid, fd);
		ck_assert_int_gt(readlink(path, link, sizeof(link) - 1), 0);
		ck_assert_msg(!from->closed[fd] || !strcmp(link, "/"), "%d is %s", fd, link);
	}
}

static void check_trace(const struct stage *stage)
{
	json_t *report = report_load(stage->tap.trace);
	ck_assert_uint_eq(report_u64(report, "totals.allocations"), WORK);
	ck_assert_uint_eq(json_array_size(report_at(report, "warnings")), 0);
	json_decref(report);
	ck_assert_int_eq(unlink(stage->tap.trace), 0);
}

/* Makes a whole capture, ended by SIGINT. Its trace must have all allocations. */
static void check_works(struct inherited *from)
{
	struct stage stage;
	char command[32];
	stage_init(&stage);
	attach(&stage, from);
	tap_wait_on(&stage.tap, "/actor");
	check_stand_ins(&stage, from);
	snprintf(command, sizeof(command), "work %u", WORK);
	free(victim_ask(&stage.victim, command, ANSWER_MS));
	kill(stage.tap.run.pid, SIGINT);
	int status = run_wait(&stage.tap.run, HEAPTAP_MS);
	char *out = run_out(&stage.tap.run), *err = run_err(&stage.tap.run);
	/* --json needs stdout: with a closed one heaptap exits with INTERNAL. */
	ck_assert_msg(status == (from->closed[1] ? INTERNAL : DONE), "%d: %s", status, err);
	if (from->closed[1]) {
		ck_assert_str_eq(out, "");
	} else {
		json_t *object = report_parse(out);
		tap_check_clean(object);
		json_decref(object);
	}
	ck_assert(!from->closed[2] || !*err);
	ck_assert(from->closed[2] || strstr(err, "process unchanged: 6 checks"));
	free(out);
	free(err);
	run_deinit(&stage.tap.run);
	check_trace(&stage);
	stage_deinit(&stage);
}

static void check_refused(struct inherited *from, const char *reason)
{
	struct stage stage;
	stage_init(&stage);
	attach(&stage, from);
	int status = run_wait(&stage.tap.run, RUN_REFUSAL_MS);
	char *err = run_err(&stage.tap.run);
	ck_assert_msg(status == REFUSED, "%d: %s", status, err);
	ck_assert_msg(strstr(err, reason), "\"%s\" is not in: %s", reason, err);
	ck_assert_ptr_eq(strchr(err, '\n'), strrchr(err, '\n'));
	ck_assert_int_ne(access(stage.tap.trace, F_OK), 0);
	free(err);
	run_deinit(&stage.tap.run);
	stage_deinit(&stage);
}

/* recover and cleanup must refuse before they change anything, if they could not finish. */
static void check_care_refused(struct inherited *from, const char *reason)
{
	static const char *const verbs[] = {"recover", "cleanup"};
	struct stage stage;
	char pid[16];
	stage_init(&stage);
	snprintf(pid, sizeof(pid), "%d", stage.victim.pid);
	for (size_t i = 0; i < HT_ARRAY_SIZE(verbs); i++) {
		struct run run;
		run_start_prepared(&run,
			(const char *[]){run_built("heaptap"), verbs[i], "-p", pid, NULL}, inherit,
			from);
		int status = run_wait(&run, RUN_REFUSAL_MS);
		char *err = run_err(&run);
		ck_assert_msg(status == REFUSED && strstr(err, reason), "%d: %s", status, err);
		free(err);
		run_deinit(&run);
	}
	stage_deinit(&stage);
}

HT_TEST(closed_descriptors)
{
	static const unsigned sets[] = {1, 2, 4, 7};
	for (size_t i = 0; i < HT_ARRAY_SIZE(sets); i++) {
		struct inherited from = {0};
		for (unsigned fd = 0; fd < 3; fd++)
			from.closed[fd] = sets[i] >> fd & 1;
		check_works(&from);
	}
}

/* With closed outputs heaptap fails before it touches the target, and writes no message into
 * another file. */
HT_TEST(closed_output)
{
	struct stage stage;
	struct inherited from = {.closed = {true, true, false}};
	char pid[16];
	stage_init(&stage);
	snprintf(pid, sizeof(pid), "%d", stage.victim.pid);
	const struct {
		const char *argv[6];
		int status;
	} cases[] = {{{"attach", "-p", pid, "-o", "-", NULL}, USAGE},
		{{"doctor", "-p", pid, NULL}, INTERNAL}, {{"verify", "-p", pid, NULL}, INTERNAL},
		{{"recover", "-p", pid, NULL}, INTERNAL}, {{"cleanup", "-p", pid, NULL}, INTERNAL},
		{{"verify", "-q", "-p", pid, NULL}, DONE}};
	for (size_t i = 0; i < HT_ARRAY_SIZE(cases); i++) {
		const char *argv[8] = {run_built("heaptap")};
		struct run run;
		memcpy(argv + 1, cases[i].argv, sizeof(cases[i].argv));
		run_start_prepared(&run, argv, inherit, &from);
		int status = run_wait(&run, HEAPTAP_MS);
		char *err = run_err(&run);
		ck_assert_msg(status == cases[i].status, "%s: %d: %s", argv[1], status, err);
		ck_assert_msg(!*err == (status == DONE), "%s: %s", argv[1], err);
		free(err);
		run_deinit(&run);
	}
	stage_deinit(&stage);
}

HT_TEST(signals)
{
	check_works(&(struct inherited){.ignored_children = true});
	check_works(&(struct inherited){.blocked_signals = true});
	check_works(&(struct inherited){
		.ignored_children = true, .blocked_signals = true, .closed = {true, true, true}});
	/* A script's shell starts `heaptap attach ... &` with SIGINT ignored. SIGINT must still end
	 * it. */
	check_works(&(struct inherited){.ignored_interrupt = true});
}

/* Sends SIGHUP to heaptap and to each of its processes, as the end of a session does. */
static void hang_up(pid_t pid)
{
	char path[64];
	int child;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
	FILE *children = fopen(path, "re");
	ck_assert_ptr_nonnull(children);
	kill(pid, SIGHUP);
	while (fscanf(children, "%d", &child) == 1)
		kill(child, SIGHUP);
	fclose(children);
}

/* nohup heaptap attach ...: a SIGHUP that was ignored at the start does not end the capture. */
static void check_hangup(bool ignored, const char *reason)
{
	struct inherited from = {.ignored_hangup = ignored};
	struct stage stage;
	stage_init(&stage);
	char pid[16], *heaptap = heaptap_path();
	snprintf(pid, sizeof(pid), "%d", stage.victim.pid);
	run_start_prepared(&stage.tap.run,
		(const char *[]){heaptap, "attach", "-p", pid, "-o", stage.tap.trace, "-d", "4s",
			"--json", NULL},
		inherit, &from);
	free(heaptap);
	tap_wait_on(&stage.tap, "/actor");
	hang_up(stage.tap.run.pid);
	int status = run_wait(&stage.tap.run, HEAPTAP_MS);
	char *out = run_out(&stage.tap.run);
	json_t *object = report_parse(out);
	ck_assert_int_eq(status, DONE);
	tap_check_clean(object);
	ck_assert_str_eq(json_string_value(json_object_get(object, "ended")), reason);
	json_decref(object);
	free(out);
	ck_assert_int_eq(unlink(stage.tap.trace), 0);
	run_deinit(&stage.tap.run);
	stage_deinit(&stage);
}

HT_TEST(hangup)
{
	check_hangup(true, "duration");
	check_hangup(false, "signal");
}

HT_TEST(few_descriptors)
{
	static const rlim_t few[] = {8, 12, 16, 24};
	for (size_t i = 0; i < HT_ARRAY_SIZE(few); i++)
		check_refused(&(struct inherited){.files = {few[i], few[i]}}, "ulimit -n");
	check_works(&(struct inherited){.files = {40, 40}});
	/* heaptap raises the soft limit. */
	check_works(&(struct inherited){.files = {16, 1024}});
}

HT_TEST(little_address_space)
{
	static const rlim_t little[] = {100 << 20, 700 << 20, 1400 << 20};
#ifdef __SANITIZE_ADDRESS__
	printf("skipped: start: a sanitizer needs all address space\n");
	return;
#endif
	for (size_t i = 0; i < HT_ARRAY_SIZE(little); i++)
		check_refused(&(struct inherited){.space = {little[i], little[i]}}, "ulimit -v");
	check_works(&(struct inherited){.space = {1600ul << 20, 1600ul << 20}});
}

HT_TEST(little_data)
{
	static const rlim_t little[] = {2 << 20, 20 << 20, 60 << 20};
#ifdef __SANITIZE_ADDRESS__
	printf("skipped: start: a sanitizer needs all memory\n");
	return;
#endif
	for (size_t i = 0; i < HT_ARRAY_SIZE(little); i++)
		check_refused(&(struct inherited){.data = {little[i], little[i]}}, "ulimit -d");
	check_works(&(struct inherited){.data = {80 << 20, 80 << 20}});
}

HT_TEST(little_stack)
{
	static const rlim_t little[] = {64 << 10, 84 << 10, 256 << 10};
#ifdef __SANITIZE_ADDRESS__
	printf("skipped: start: a sanitizer needs more stack\n");
	return;
#endif
	for (size_t i = 0; i < HT_ARRAY_SIZE(little); i++)
		check_refused(&(struct inherited){.stack = {little[i], little[i]}}, "ulimit -s");
	check_care_refused(&(struct inherited){.stack = {84 << 10, 84 << 10}}, "ulimit -s");
	check_works(&(struct inherited){.stack = {1 << 20, 1 << 20}});
	/* heaptap raises the soft limit. */
	check_works(&(struct inherited){.stack = {84 << 10, 8 << 20}});
}

/* heaptap runs out of memory and cannot even fork. The guardian, with its own limit, then cleans up
 * what heaptap cannot. */
HT_TEST(address_space_runs_out)
{
#ifdef __SANITIZE_ADDRESS__
	printf("skipped: start: a sanitizer ends a process without memory\n");
	return;
#endif
	struct stage stage;
	struct inherited from = {0};
	ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	stage_init(&stage);
	attach(&stage, &from);
	tap_wait_on(&stage.tap, "/actor");
	const struct rlimit none = {1 << 20, 1 << 20};
	ck_assert_int_eq(prlimit(stage.tap.run.pid, RLIMIT_AS, &none, NULL), 0);
	free(victim_ask(&stage.victim, "work 100000", ANSWER_MS));
	kill(stage.tap.run.pid, SIGINT);
	int status = run_wait(&stage.tap.run, HEAPTAP_MS);
	char *err = run_err(&stage.tap.run);
	ck_assert_msg(status == DETACH_INCOMPLETE, "%d: %s", status, err);
	run_until(tap_guardian_is_done(stage.victim.pid), HEAPTAP_MS);
	free(err);
	run_deinit(&stage.tap.run);
	stage_deinit(&stage);
}

HT_TEST(no_working_directory)
{
	struct inherited from = {.directory = tmpdir_path("gone")};
	char pid[16], *heaptap = heaptap_path();
	struct stage stage;
	struct run run;
	check_works(&from);
	stage_init(&stage);
	snprintf(pid, sizeof(pid), "%d", stage.victim.pid);
	run_start_prepared(
		&run, (const char *[]){heaptap, "attach", "-p", pid, NULL}, inherit, &from);
	ck_assert_int_eq(run_wait(&run, HEAPTAP_MS), USAGE);
	char *err = run_err(&run);
	ck_assert_msg(strstr(err, "-o") && strchr(err, '\n') == strrchr(err, '\n'), "%s", err);
	run_deinit(&run);
	stage_deinit(&stage);
}

static void deny_writing(void *context)
{
	(void)context;
	deny_calls(SYS_pwrite64, EIO);
}

/* Writing to /proc/PID/mem fails, as on a kernel with proc_mem.force_override=never. */
HT_TEST(no_writing_to_read_only_memory)
{
	char pid[16], *heaptap = heaptap_path(), *trace = tmpdir_path("none.htap");
	struct stage stage;
	struct run run;
	stage_init(&stage);
	struct procsnap *before = procsnap_take(stage.victim.pid, 0);
	snprintf(pid, sizeof(pid), "%d", stage.victim.pid);
	run_start_prepared(&run, (const char *[]){heaptap, "attach", "-p", pid, "-o", trace, NULL},
		deny_writing, NULL);
	ck_assert_int_eq(run_wait(&run, HEAPTAP_MS), NOT_PERMITTED);
	char *err = run_err(&run);
	ck_assert_msg(strstr(err, "force_override") && strchr(err, '\n') == strrchr(err, '\n'),
		"%s", err);
	ck_assert_int_ne(access(trace, F_OK), 0);
	procsnap_verify(before, stage.victim.pid);
	free(err);
	free(trace);
	run_deinit(&run);
	stage_deinit(&stage);
}

static void become_another_ones_parent(void *context)
{
	(void)context;
	if (unshare(CLONE_NEWPID) < 0)
		_exit(126);
}

static void check_numbering(const char *const argv[], void (*prepare)(void *), const char *reason)
{
	struct run run;
	run_start_prepared(&run, argv, prepare, NULL);
	int status = run_wait(&run, RUN_REFUSAL_MS);
	char *out = run_out(&run), *err = run_err(&run);
	ck_assert_msg(status == REFUSED, "%s: %d: %s", argv[1], status, err);
	ck_assert_msg(strstr(err, reason) && strchr(err, '\n') == strrchr(err, '\n'), "%s", err);
	ck_assert_str_eq(out, "");
	free(out);
	free(err);
	run_deinit(&run);
}

/* /proc is of another PID namespace: a PID means one process to ptrace, and another in /proc. */
HT_TEST(numbers_of_another_namespace)
{
	struct stage stage;
	char pid[16];
	if (geteuid() != 0) {
		printf("skipped: start: a PID namespace needs root\n");
		return;
	}
	stage_init(&stage);
	snprintf(pid, sizeof(pid), "%d", stage.victim.pid);
	const char *const commands[][5] = {{"attach", "-p", pid, "-d", "1s"}, {"doctor", "-p", pid},
		{"verify", "-p", pid}, {"recover", "-p", pid}, {"cleanup", "-p", pid},
		{"run", "-o", stage.tap.trace, "echo", "ran"}};
	for (size_t i = 0; i < HT_ARRAY_SIZE(commands); i++) {
		const char *argv[10] = {"unshare", "--pid", "--fork", run_built("heaptap")};
		memcpy(argv + 4, commands[i], sizeof(commands[i]));
		check_numbering(argv, NULL, "/proc belongs to another PID namespace");
		check_numbering(argv + 3, become_another_ones_parent, "in another PID namespace");
	}
	ck_assert_int_ne(access(stage.tap.trace, F_OK), 0);
	stage_deinit(&stage);
}

HT_SUITE("integration/start")
