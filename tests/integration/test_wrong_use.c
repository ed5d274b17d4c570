/* SPDX-License-Identifier: Apache-2.0
 *
 * Wrong use gets one line that names the reason, the exit code of the man page's table, no trace
 * file, and the target is not touched.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/child.h"
#include "tests/support/ht_check.h"
#include "tests/support/machine.h"
#include "tests/support/procsnap.h"
#include "tests/support/report.h"
#include "tests/support/tap.h"
#include "tests/support/tmpdir.h"
#include "tests/support/victim.h"

#define VALGRIND   "/usr/bin/valgrind"
#define ANSWER_MS  20000
#define HEAPTAP_MS 60000

enum { USAGE = 2, REFUSED = 3, PERMISSION = 4, TARGET_ENDED = 5, TRACE_INCOMPLETE = 7 };

static unsigned line_count(const char *text)
{
	unsigned lines = 0;
	for (; *text; text++)
		lines += *text == '\n';
	return lines;
}

static void check_answer(struct run *run, int expected_status, const char *reason)
{
	int status = run_wait(run, RUN_REFUSAL_MS);
	char *out = run_out(run), *err = run_err(run);
	ck_assert_msg(status == expected_status, "status %d instead of %d: %s", status,
		expected_status, err);
	ck_assert_msg(line_count(err) == 1, "not one line: %s", err);
	ck_assert_msg(strcasestr(err, reason), "\"%s\" is not in: %s", reason, err);
	ck_assert_str_eq(out, "");
	free(out);
	free(err);
	run_deinit(run);
}

/* `heaptap attach -p PID` must end with this status and one line that contains `reason`; doctor
 * must say the same. */
static void check_refused(const char *pid, int expected_status, const char *reason)
{
	HT_FREED char *trace = tmpdir_path("refused.htap");
	struct run run;
	run_start(&run, (const char *[]){run_built("heaptap"), "doctor", "-p", pid, NULL});
	check_answer(&run, expected_status, reason);
	run_start(&run, (const char *[]){run_built("heaptap"), "attach", "-p", pid, "-d", "1s",
				"-o", trace, NULL});
	check_answer(&run, expected_status, reason);
	ck_assert_msg(access(trace, F_OK) != 0, "a trace file was made");
}

static void check_pid_refused(pid_t pid, int expected_status, const char *reason)
{
	char text[16];
	snprintf(text, sizeof(text), "%d", pid);
	check_refused(text, expected_status, reason);
}

static void start_actor(struct victim *victim)
{
	victim_start(victim, (const char *[]){run_built("tests/targets/actor"), NULL});
}

HT_TEST(no_such_process)
{
	pid_t gone = fork();
	if (!gone)
		_exit(0);
	waitpid(gone, NULL, 0);
	check_pid_refused(gone, REFUSED, "no process");
}

HT_TEST(zombie)
{
	pid_t child = fork();
	if (!child)
		_exit(0);
	siginfo_t info;
	ck_assert_int_eq(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
	check_pid_refused(child, REFUSED, "zombie");
	waitpid(child, NULL, 0);
}

HT_TEST(kernel_thread)
{
	char exe[4096];
	errno = 0;
	if (readlink("/proc/2/exe", exe, sizeof(exe)) >= 0 || errno != ENOENT) {
		fprintf(stderr, "skipped: kernel_thread: process 2 is none here\n");
		return;
	}
	check_refused("2", REFUSED, "kernel thread");
}

HT_TEST(itself)
{
	struct run run;
	run_start(&run, (const char *[]){"sh", "-c", "exec \"$1\" attach -p $$ -o /dev/null/x",
				"sh", run_built("heaptap"), NULL});
	check_answer(&run, REFUSED, "itself");
}

HT_TEST(a_32_bit_program)
{
	struct run target;
	if (!machine_runs_32_bits("wrong_use"))
		return;
	run_start(&target, (const char *[]){run_built("tests/targets/idle32"), NULL});
	char link[64], exe[4096] = "";
	snprintf(link, sizeof(link), "/proc/%d/exe", target.pid);
	run_until(readlink(link, exe, sizeof(exe) - 1) > 0 && strstr(exe, "idle32"), ANSWER_MS);
	check_pid_refused(target.pid, REFUSED, "64-bit");
	ck_assert(!run_has_ended(&target));
	run_deinit(&target);
}

HT_TEST(static_program)
{
	struct victim victim;
	victim_start(&victim, (const char *[]){run_built("tests/targets/actor-static"), NULL});
	struct procsnap *before = procsnap_take(victim.pid, 0);
	check_pid_refused(victim.pid, REFUSED, "static");
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
}

/* A static program maps libraries itself, as an emulator does for its guest. They have slots, but
 * are unknown to the program's own C library. Libraries loaded by dlopen: test_static.c. */
HT_TEST(static_program_with_libraries)
{
	struct victim victim;
	victim_start(&victim, (const char *[]){run_built("tests/targets/ownloader"), NULL});
	free(victim_ask(&victim, "open", ANSWER_MS));
	struct procsnap *before = procsnap_take(victim.pid, 0);
	check_pid_refused(victim.pid, REFUSED, "libplug.so: the process emulates");
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
}

/* An emulator (callgrind) cannot run hooks in the slots: the program would die. */
HT_TEST(emulated)
{
	struct victim victim;
	if (access(VALGRIND, X_OK)) {
		printf("skipped: wrong_use: emulated: valgrind is not installed\n");
		return;
	}
	victim_start(&victim,
		(const char *[]){VALGRIND, "-q", "--tool=callgrind",
			"--callgrind-out-file=/dev/null", run_built("tests/targets/actor"), NULL});
	struct procsnap *before = procsnap_take(victim.pid, PROCSNAP_JIT);
	check_pid_refused(victim.pid, REFUSED, "emulates the program");
	procsnap_verify(before, victim.pid);
	victim_prove_alive(&victim);
	victim_stop(&victim);
}

static void check_traced(struct victim *victim, pid_t tid)
{
	char me[32];
	ck_assert_int_eq(ptrace(PTRACE_SEIZE, tid, NULL, NULL), 0);
	snprintf(me, sizeof(me), "%d", getpid());
	check_pid_refused(victim->pid, REFUSED, me);
	victim_prove_alive(victim);
	ck_assert_int_eq(ptrace(PTRACE_INTERRUPT, tid, NULL, NULL), 0);
	ck_assert_int_eq(waitpid(tid, NULL, __WALL), tid);
	ck_assert_int_eq(ptrace(PTRACE_DETACH, tid, NULL, NULL), 0);
	victim_stop(victim);
}

HT_TEST(traced_by_another)
{
	struct victim victim;
	start_actor(&victim);
	check_traced(&victim, victim.pid);
}

static pid_t other_thread(pid_t pid)
{
	char path[64];
	pid_t found = 0;
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	DIR *task = opendir(path);
	ck_assert_ptr_nonnull(task);
	for (struct dirent *entry; (entry = readdir(task));) {
		pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
		found = tid && tid != pid ? tid : found;
	}
	closedir(task);
	ck_assert_int_ne(found, 0);
	return found;
}

HT_TEST(one_thread_traced_by_another)
{
	struct victim victim;
	victim_start(&victim, (const char *[]){run_built("tests/targets/busy"), "-t", "1", NULL});
	check_traced(&victim, other_thread(victim.pid));
}

HT_TEST(stopped)
{
	struct victim victim;
	start_actor(&victim);
	kill(victim.pid, SIGSTOP);
	run_until(child_state(victim.pid) == 'T', ANSWER_MS);
	check_pid_refused(victim.pid, REFUSED, "stopped");
	ck_assert_int_eq(child_state(victim.pid), 'T');
	kill(victim.pid, SIGCONT);
	victim_prove_alive(&victim);
	victim_stop(&victim);
}

/* With such a limit the creation of the agent's memfd would kill the process by SIGXFSZ. */
HT_TEST(file_size_limit)
{
	struct victim victim;
	start_actor(&victim);
	struct rlimit limit = {1 << 20, RLIM_INFINITY};
	ck_assert_int_eq(prlimit(victim.pid, RLIMIT_FSIZE, &limit, NULL), 0);
	check_pid_refused(victim.pid, REFUSED, "prlimit");
	victim_prove_alive(&victim);
	victim_stop(&victim);
}

HT_TEST(thread_id)
{
	struct victim victim;
	victim_start(&victim, (const char *[]){run_built("tests/targets/busy"), "-t", "1", NULL});
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/task", victim.pid);
	DIR *dir = opendir(path);
	pid_t tid = 0;
	for (struct dirent *entry; (entry = readdir(dir));)
		if (entry->d_name[0] != '.' && strtol(entry->d_name, NULL, 10) != victim.pid)
			tid = (pid_t)strtol(entry->d_name, NULL, 10);
	closedir(dir);
	check_pid_refused(tid, REFUSED, "thread");
	victim_prove_alive(&victim);
	victim_stop(&victim);
}

/* A copy of a built program that any user may run. */
static const char *public_copy(const char *built, const char *name)
{
	char *copy = tmpdir_path(name), *directory = tmpdir_path("");
	ck_assert_int_eq(chmod(directory, 0711), 0);
	ck_assert_int_eq(
		run_program((const char *[]){"install", "-m", "755", run_built(built), copy, NULL},
			ANSWER_MS, NULL, NULL),
		0);
	return copy;
}

HT_TEST(another_users_process)
{
	if (geteuid() != 0) {
		fprintf(stderr, "skipped: another_users_process: needs root\n");
		return;
	}
	struct victim victim;
	start_actor(&victim);
	struct procsnap *before = procsnap_take(victim.pid, 0);
	char pid[16];
	snprintf(pid, sizeof(pid), "%d", victim.pid);
	struct run run;
	run_start_as_nobody(
		&run, (const char *[]){public_copy("heaptap", "heaptap"), "attach", "-p", pid, "-d",
			      "1s", "-o", "/tmp/heaptap-test-never-made", NULL});
	check_answer(&run, PERMISSION, "uid");
	ck_assert_int_ne(access("/tmp/heaptap-test-never-made", F_OK), 0);
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
}

/* Starts an actor as user nobody, from a copy that this user may execute. */
static void start_nobodys_actor(struct victim *victim)
{
	victim_start(victim,
		(const char *[]){"/usr/bin/setpriv", "--reuid", "65534", "--regid", "65534",
			"--clear-groups", public_copy("tests/targets/actor", "actor"), NULL});
}

static void attach_as_nobody(pid_t target, int expected_status, char **ret_err)
{
	char pid[16];
	snprintf(pid, sizeof(pid), "%d", target);
	struct run run;
	run_start_as_nobody(&run, (const char *[]){public_copy("heaptap", "heaptap"), "attach",
					  "-p", pid, "-d", "100ms", "-o", "-", NULL});
	int status = run_wait(&run, HEAPTAP_MS);
	*ret_err = run_err(&run);
	ck_assert_msg(status == expected_status, "status %d: %s", status, *ret_err);
	run_deinit(&run);
}

HT_TEST(own_process_without_root)
{
	if (geteuid() != 0) {
		fprintf(stderr, "skipped: own_process_without_root: all other tests show it\n");
		return;
	}
	struct victim victim;
	start_nobodys_actor(&victim);
	struct procsnap *before = procsnap_take(victim.pid, 0);
	char *err;
	attach_as_nobody(victim.pid, 0, &err);
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
}

/* A target that forbids the clock (PR_SET_TSC) without any filter; heaptap runs without root. */
HT_TEST(own_process_forbids_the_clock_without_root)
{
	if (geteuid() != 0) {
		fprintf(stderr,
			"skipped: own_process_forbids_the_clock_without_root: needs root\n");
		return;
	}
	struct victim victim;
	victim_start(
		&victim, (const char *[]){"/usr/bin/setpriv", "--reuid", "65534", "--regid",
				 "65534", "--clear-groups",
				 public_copy("tests/targets/confined", "confined"), "alone", NULL});
	struct procsnap *before = procsnap_take(victim.pid, 0);
	struct tap tap = {.target = victim.pid};
	char pid[16];
	snprintf(pid, sizeof(pid), "%d", victim.pid);
	run_start_as_nobody(
		&tap.run, (const char *[]){public_copy("heaptap", "heaptap"), "attach", "-p", pid,
				  "--symbolize", "later", "-o", "/dev/null", "--json", NULL});
	tap_wait_on(&tap, "/confined");
	free(victim_ask(&victim, "confine no-clock", ANSWER_MS));
	json_t *attach = tap_wait(&tap, TARGET_ENDED);
	tap_check_clean(attach);
	json_decref(attach);
	procsnap_verify(before, victim.pid);
	victim_kill(&victim);
}

HT_TEST(undumpable)
{
	if (geteuid() != 0) {
		fprintf(stderr, "skipped: undumpable: needs root\n");
		return;
	}
	struct victim victim;
	start_nobodys_actor(&victim);
	free(victim_ask(&victim, "undumpable", ANSWER_MS));
	char *err;
	attach_as_nobody(victim.pid, PERMISSION, &err);
	ck_assert_msg(line_count(err) == 1 && strstr(err, "dumpable"), "%s", err);
	victim_prove_alive(&victim);
	victim_stop(&victim);
}

HT_TEST(recover_without_root)
{
	if (geteuid() != 0) {
		fprintf(stderr, "skipped: recover_without_root: needs root\n");
		return;
	}
	struct victim victim;
	struct tap tap;
	struct run run;
	char pid[16], remedy[48];
	start_nobodys_actor(&victim);
	struct procsnap *before = procsnap_take(victim.pid, 0);
	tap_start(&tap, victim.pid, NULL);
	tap_wait_on(&tap, "/actor");
	tap_abandon(&tap);
	snprintf(pid, sizeof(pid), "%d", victim.pid);
	snprintf(remedy, sizeof(remedy), "sudo heaptap recover -p %s\n", pid);
	run_start_as_nobody(&run,
		(const char *[]){public_copy("heaptap", "heaptap"), "verify", "-p", pid, NULL});
	ck_assert_int_eq(run_wait(&run, HEAPTAP_MS), 6);
	char *out = run_out(&run);
	ck_assert_msg(strstr(out, remedy), "%s", out);
	free(out);
	run_deinit(&run);
	run_start_as_nobody(&run,
		(const char *[]){public_copy("heaptap", "heaptap"), "recover", "-p", pid, NULL});
	check_answer(&run, PERMISSION, remedy);
	victim_prove_alive(&victim);
	json_decref(report_run("recover", victim.pid, 0));
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
}

/* If recover has begun but cannot finish, it must not exit with 3, "refused, target untouched". */
HT_TEST(recover_while_stopped)
{
	struct victim victim;
	struct tap tap;
	char pid[16], *out, *err;
	start_actor(&victim);
	struct procsnap *before = procsnap_take(victim.pid, 0);
	tap_start(&tap, victim.pid, NULL);
	tap_wait_on(&tap, "/actor");
	tap_abandon(&tap);
	kill(victim.pid, SIGSTOP);
	snprintf(pid, sizeof(pid), "%d", victim.pid);
	int status = run_program((const char *[]){run_built("heaptap"), "recover", "-p", pid, NULL},
		HEAPTAP_MS, &out, &err);
	/* recover may need a thread for the proof or only to unmap: the message must name the
	 * remedy in both cases. */
	ck_assert_msg(status == 6 && (strstr(out, "kill -CONT") || strstr(err, "kill -CONT")),
		"status %d: %s%s", status, out, err);
	free(out);
	free(err);
	kill(victim.pid, SIGCONT);
	json_decref(report_run("recover", victim.pid, 0));
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
}

HT_TEST(tapped_already)
{
	struct victim victim;
	start_actor(&victim);
	struct tap tap;
	tap_start(&tap, victim.pid, NULL);
	tap_wait_on(&tap, "/actor");
	char holder[16];
	snprintf(holder, sizeof(holder), "%d", tap.run.pid);
	check_pid_refused(victim.pid, REFUSED, holder);
	free(victim_ask(&victim, "work 1000", ANSWER_MS));
	tap_check_clean(tap_stop(&tap, 0));
	json_t *report = report_load(tap.trace);
	ck_assert_uint_eq(report_u64(report, "totals.allocations"), 1000);
	victim_stop(&victim);
}

static int attach_status(pid_t pid, const char *output, char **ret_err)
{
	char text[16];
	snprintf(text, sizeof(text), "%d", pid);
	return run_program((const char *[]){run_built("heaptap"), "attach", "-p", text, "-d", "1s",
				   "-o", output, NULL},
		HEAPTAP_MS, NULL, ret_err);
}

HT_TEST(unwritable_output)
{
	struct victim victim;
	start_actor(&victim);
	struct procsnap *before = procsnap_take(victim.pid, 0);
	char *in_nowhere = tmpdir_path("nowhere/x.htap"), *err;
	ck_assert_int_eq(attach_status(victim.pid, in_nowhere, &err), USAGE);
	ck_assert_msg(line_count(err) == 1 && strstr(err, in_nowhere), "%s", err);
	char *directory = tmpdir_path("");
	ck_assert_int_eq(attach_status(victim.pid, directory, &err), USAGE);
	ck_assert_msg(line_count(err) == 1 && strstr(err, directory), "%s", err);
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
}

/* No space for the trace: the part that fits is a valid trace, and the target goes on. */
HT_TEST(no_room_for_the_trace)
{
	struct victim victim;
	start_actor(&victim);
	struct procsnap *before = procsnap_take(victim.pid, 0);
	char *trace = tmpdir_path("small.htap"), pid[16];
	snprintf(pid, sizeof(pid), "%d", victim.pid);
	struct tap tap = {.target = victim.pid};
	run_start(&tap.run, (const char *[]){"sh", "-c",
				    "ulimit -f 128; exec \"$1\" attach -p \"$2\" -o \"$3\"", "sh",
				    run_built("heaptap"), pid, trace, NULL});
	tap_wait_on(&tap, "/actor");
	for (int i = 0; i < 40; i++)
		free(victim_ask(&victim, "work 50000", ANSWER_MS));
	kill(tap.run.pid, SIGINT);
	int status = run_wait(&tap.run, HEAPTAP_MS);
	ck_assert_msg(status == TRACE_INCOMPLETE, "status %d: %s", status, run_err(&tap.run));
	run_deinit(&tap.run);
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
	json_t *report = report_load(trace);
	ck_assert_uint_gt(json_array_size(report_at(report, "warnings")), 0);
}

HT_TEST(nonsense)
{
	struct victim victim;
	start_actor(&victim);
	struct procsnap *before = procsnap_take(victim.pid, 0);
	char pid[16];
	snprintf(pid, sizeof(pid), "%d", victim.pid);
	static const char *const duration[] = {
		"0", "0s", "-1s", "", "s", "1y", "1s1", "99999999999999999999h"};
	for (size_t i = 0; i < HT_ARRAY_SIZE(duration); i++) {
		struct run run;
		run_start(&run, (const char *[]){run_built("heaptap"), "attach", "-p", pid, "-d",
					duration[i], "-o", "/dev/null/x", NULL});
		check_answer(&run, USAGE, "duration");
	}
	static const char *const bad_pid[] = {
		"0", "-1", "", "abc", "12abc", "99999999999999999999"};
	for (size_t i = 0; i < HT_ARRAY_SIZE(bad_pid); i++)
		check_refused(bad_pid[i], USAGE, "process number");
	static const char *const command[][4] = {{"attach"}, {"attach", "-p"}, {"attach", "--none"},
		{"attach", "-p", "1", "more"}, {"doctor"}};
	for (size_t i = 0; i < HT_ARRAY_SIZE(command); i++) {
		struct run run;
		run_start(&run, (const char *[]){run_built("heaptap"), command[i][0], command[i][1],
					command[i][1] ? command[i][2] : NULL,
					command[i][2] ? command[i][3] : NULL, NULL});
		check_answer(&run, USAGE, "");
	}
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
}

/* doctor reports what attach would do, and changes nothing. */
HT_TEST(doctor)
{
	struct victim victim;
	start_actor(&victim);
	struct procsnap *before = procsnap_take(victim.pid, 0);
	char pid[16], *out, *err;
	snprintf(pid, sizeof(pid), "%d", victim.pid);
	int status = run_program((const char *[]){run_built("heaptap"), "doctor", "-p", pid, NULL},
		HEAPTAP_MS, &out, &err);
	ck_assert_msg(status == 0, "%d: %s", status, err);
	ck_assert_msg(strstr(out, "allocator: ") && strstr(out, "attach is possible"), "%s", out);
	ck_assert_msg(!strstr(out, "slot"), "%s", out);
	free(out);
	status =
		run_program((const char *[]){run_built("heaptap"), "doctor", "-v", "-p", pid, NULL},
			HEAPTAP_MS, &out, &err);
	ck_assert_int_eq(status, 0);
	ck_assert_msg(strstr(out, "slots: "), "%s", out);
	free(out);
	status =
		run_program((const char *[]){run_built("heaptap"), "doctor", "-q", "-p", pid, NULL},
			HEAPTAP_MS, &out, &err);
	ck_assert_int_eq(status, 0);
	ck_assert_str_eq(out, "");
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
	victim_start(&victim, (const char *[]){run_built("tests/targets/actor-static"), NULL});
	snprintf(pid, sizeof(pid), "%d", victim.pid);
	status = run_program((const char *[]){run_built("heaptap"), "doctor", "-p", pid, NULL},
		HEAPTAP_MS, &out, &err);
	ck_assert_int_eq(status, REFUSED);
	victim_stop(&victim);
}

HT_SUITE("integration/wrong_use")
