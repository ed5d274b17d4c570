/* SPDX-License-Identifier: Apache-2.0
 *
 * Outputs that block: a file system that the target serves, a pipe that the target reads, a reader
 * that stops, a target that only waits for heaptap. The capture ends in time, the target goes on,
 * and heaptap counts the events that it could not write.
 *
 * HEAPTAP_SLOW_OUTPUT=1: also tests that take a minute.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/child.h"
#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/report.h"
#include "tests/support/tap.h"
#include "tests/support/tmpdir.h"
#include "tests/support/victim.h"

#define ANSWER_MS   60000
#define HEAPTAP_MS  90000
#define TRACE_BYTES 4200

static bool is_possible(void)
{
	if (geteuid() == 0 && access("/dev/fuse", R_OK | W_OK) == 0)
		return true;
	printf("skipped: stalled: needs root and /dev/fuse\n");
	return false;
}

static void order(struct victim *victim, const char *command)
{
	HT_FREED char *answer = victim_ask(victim, command, ANSWER_MS);
	ck_assert_str_eq(answer, "done");
}

static void start(struct victim *victim, const char *program, const char *argument)
{
	char path[64];
	snprintf(path, sizeof(path), "tests/targets/%s", program);
	victim_start(victim, (const char *[]){run_built(path), argument, NULL});
}

/* Starts a target that serves a file system; `trace` gets the path of a trace in it, through
 * /proc/PID/root. Returns the target's snapshot; NULL: not possible on this machine. */
static struct procsnap *start_served(struct victim *victim, char trace[TRACE_BYTES])
{
	if (!is_possible())
		return NULL;
	HT_FREED char *directory = tmpdir_path("served");
	ck_assert_int_eq(mkdir(directory, 0755), 0);
	start(victim, "served", directory);
	HT_FREED char *full = realpath(directory, NULL);
	snprintf(trace, TRACE_BYTES, "/proc/%d/root%s/trace", victim->pid, full);
	return procsnap_take(victim->pid, 0);
}

/* Starts heaptap attach -p PID -o OUTPUT --json EXTRA... */
static void attach(
	struct tap *tap, const struct victim *victim, const char *output, const char *const extra[])
{
	char pid[16];
	const char *argv[16] = {run_built("heaptap"), "attach", "-p", pid, "-o", output, "--json"};
	snprintf(pid, sizeof(pid), "%d", victim->pid);
	for (size_t i = 0; extra && extra[i]; i++)
		argv[7 + i] = extra[i];
	tap->target = victim->pid;
	run_start(&tap->run, argv);
}

/* heaptap must exit with 7, and report why the capture ended, how many events are missing, and no
 * leftover. Returns a lower bound of the events in the trace. */
static uint64_t check_incomplete(struct tap *tap, uint64_t calls, const char *ended)
{
	run_wait(&tap->run, HEAPTAP_MS);
	char *err = run_err(&tap->run);
	ck_assert_msg(strstr(err, "accepted nothing for 5 s") &&
			      strstr(err, "bytes of records were not written") &&
			      strstr(err, "write to another place with -o"),
		"%s", err);
	free(err);
	json_auto_t *attach = tap_wait(tap, 7);
	tap_check_equal(attach);
	ck_assert_str_eq(report_text(attach, "ended"), ended);
	uint64_t events = report_u64(attach, "events");
	ck_assert_uint_gt(report_u64(attach, "dropped_events"), 0);
	tap_check_balance(attach, calls);
	return events;
}

static void check_trace(const char *trace, uint64_t events)
{
	json_t *report = report_load_begun(trace);
	if (!report) {
		ck_assert_msg(!events, "no record of %lu events", events);
		return;
	}
	uint64_t found =
		report_u64(report, "totals.allocations") + report_u64(report, "totals.frees");
	ck_assert_msg(found >= events, "%lu events of %lu", found, events);
	json_decref(report);
}

static uint64_t press(struct victim *victim, unsigned ms)
{
	char command[32];
	uint64_t calls;
	snprintf(command, sizeof(command), "press %u", ms);
	HT_FREED char *answer = victim_ask(victim, command, ms + ANSWER_MS);
	ck_assert_int_eq(sscanf(answer, "calls %lu", &calls), 1);
	return calls;
}

/* The PID of heaptap's writer process; 0: there is none. */
static pid_t writer_of(pid_t heaptap)
{
	char path[64], comm[32];
	pid_t found = 0;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", heaptap, heaptap);
	FILE *children = fopen(path, "re");
	ck_assert_ptr_nonnull(children);
	for (pid_t pid; !found && fscanf(children, "%d", &pid) == 1;) {
		snprintf(path, sizeof(path), "/proc/%d/comm", pid);
		FILE *file = fopen(path, "re");
		if (file && fscanf(file, "%31s", comm) == 1 && !strcmp(comm, "heaptap-writer"))
			found = pid;
		if (file)
			fclose(file);
	}
	fclose(children);
	return found;
}

/* --- a file system that the target serves --- */

static void stall_writes(const char *const extra[], int signal, const char *ended)
{
	struct victim victim;
	struct tap tap;
	char trace[TRACE_BYTES];
	struct procsnap *before = start_served(&victim, trace);
	if (!before)
		return;
	attach(&tap, &victim, trace, extra);
	tap_wait_on(&tap, "/served");
	order(&victim, "stall writes");
	uint64_t calls = press(&victim, 500);
	if (signal)
		kill(tap.run.pid, signal);
	uint64_t events = check_incomplete(&tap, calls, ended);
	procsnap_verify(before, victim.pid);
	order(&victim, "resume");
	check_trace(trace, events);
	victim_stop(&victim);
}

HT_TEST(writes_stall_until_the_duration_is_over)
{
	stall_writes((const char *[]){"-d", "3s", NULL}, 0, "duration");
}

HT_TEST(writes_stall_until_a_signal)
{
	stall_writes(NULL, SIGTERM, "signal");
}

/* Is the target's second thread, which serves, in the agent, waiting for heaptap? */
static bool is_server_waiting(const struct victim *victim)
{
	char path[64];
	bool waiting = false;
	snprintf(path, sizeof(path), "/proc/%d/task", victim->pid);
	DIR *task = opendir(path);
	ck_assert_ptr_nonnull(task);
	for (struct dirent *entry; (entry = readdir(task));) {
		pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
		waiting |= tid && tid != victim->pid && child_call(tid) == SYS_ppoll;
	}
	closedir(task);
	return waiting;
}

/* A cycle of waits: the server waits for heaptap, heaptap for its output, and the server serves
 * that output. The cycle lasts until the capture ends; then nothing is lost. */
HT_TEST(the_server_waits_in_a_hook)
{
	struct victim victim;
	struct tap tap;
	char trace[TRACE_BYTES];
	struct procsnap *before = start_served(&victim, trace);
	if (!before)
		return;
	attach(&tap, &victim, trace, (const char *[]){"--lossless", NULL});
	tap_wait_on(&tap, "/served");
	order(&victim, "hook 500000");
	press(&victim, 20);
	run_until(is_server_waiting(&victim), ANSWER_MS);
	kill(tap.run.pid, SIGINT);
	json_t *attach = tap_wait(&tap, 0);
	tap_check_clean(attach);
	json_decref(attach);
	order(&victim, "hook 0");
	procsnap_verify(before, victim.pid);
	json_decref(report_load(trace));
	victim_stop(&victim);
}

static void check_refused(struct run *run, int status, const char *text)
{
	int got = run_wait(run, RUN_REFUSAL_MS);
	char *err = run_err(run);
	ck_assert_msg(got == status, "%d: %s", got, err);
	ck_assert_msg(strstr(err, text) && strchr(err, '\n') == strrchr(err, '\n'), "%s", err);
	free(err);
	run_deinit(run);
}

HT_TEST(the_output_cannot_be_opened)
{
	struct victim victim;
	struct tap tap;
	char trace[TRACE_BYTES];
	struct procsnap *before = start_served(&victim, trace);
	if (!before)
		return;
	order(&victim, "stall all");
	attach(&tap, &victim, trace, NULL);
	check_refused(&tap.run, 2, "did not answer for 5 s; write to another place with -o");
	attach(&tap, &victim, trace, NULL);
	run_until(writer_of(tap.run.pid), ANSWER_MS);
	kill(tap.run.pid, SIGINT);
	check_refused(&tap.run, 3, "interrupted");
	procsnap_verify(before, victim.pid);
	order(&victim, "resume");
	victim_stop(&victim);
}

HT_TEST(syncing_stalls)
{
	struct victim victim;
	struct tap tap;
	char trace[TRACE_BYTES];
	if (!getenv("HEAPTAP_SLOW_OUTPUT")) {
		printf("skipped: stalled: syncing_stalls: only with HEAPTAP_SLOW_OUTPUT=1\n");
		return;
	}
	struct procsnap *before = start_served(&victim, trace);
	if (!before)
		return;
	attach(&tap, &victim, trace, NULL);
	tap_wait_on(&tap, "/served");
	order(&victim, "stall syncs");
	press(&victim, 20);
	kill(tap.run.pid, SIGINT);
	json_t *attach = tap_wait(&tap, 7);
	tap_check_clean(attach);
	json_decref(attach);
	procsnap_verify(before, victim.pid);
	order(&victim, "resume");
	json_decref(report_load(trace));
	victim_stop(&victim);
}

/* --- pipes --- */

/* Appends the rest of the pipe's data to the file at `path`, which has the data that was read
 * before: the trace as far as it was written. */
static void read_rest(int pipe_fd, const char *path, size_t bytes_max)
{
	char data[4096];
	int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	ck_assert_int_ge(file, 0);
	for (size_t bytes = 0; bytes < bytes_max;) {
		ssize_t got = read(pipe_fd, data, sizeof(data));
		if (got <= 0)
			break;
		ck_assert_int_eq(write(file, data, (size_t)got), got);
		bytes += (size_t)got;
	}
	close(file);
}

HT_TEST(the_reader_stops_reading)
{
	struct victim victim;
	int pipe_fd[2];
	char pid[16];
	HT_FREED char *path = tmpdir_path("read");
	start(&victim, "hostile", NULL);
	struct procsnap *before = procsnap_take(victim.pid, 0);
	ck_assert_int_eq(pipe2(pipe_fd, O_CLOEXEC), 0);
	snprintf(pid, sizeof(pid), "%d", victim.pid);
	struct tap tap = {.target = victim.pid};
	run_start_to(&tap.run,
		(const char *[]){
			run_built("heaptap"), "attach", "-p", pid, "-o", "-", "-d", "3s", NULL},
		pipe_fd[1]);
	close(pipe_fd[1]);
	tap_wait_on(&tap, "/hostile");
	victim_send(&victim, "press 1000");
	read_rest(pipe_fd[0], path, 4096);
	free(victim_line(&victim, ANSWER_MS));
	run_wait(&tap.run, HEAPTAP_MS);
	char *err = run_err(&tap.run);
	ck_assert_msg(strstr(err, "accepted nothing for 5 s"), "%s", err);
	free(err);
	ck_assert_ptr_null(tap_wait(&tap, 7));
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
	read_rest(pipe_fd[0], path, SIZE_MAX);
	json_decref(report_load(path));
	close(pipe_fd[0]);
}

HT_TEST(fifo_without_a_reader)
{
	struct victim victim;
	struct tap tap;
	HT_FREED char *path = tmpdir_path("fifo");
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	start(&victim, "hostile", NULL);
	struct procsnap *before = procsnap_take(victim.pid, 0);
	attach(&tap, &victim, path, NULL);
	check_refused(&tap.run, 2, "is not a regular file; write to it with -o -");
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
}

/* --- the target starts heaptap --- */

/* Tells a target to start heaptap with `arguments`, where %s stands for the path of the trace. The
 * target must be unchanged afterwards. Returns its answer; the caller frees that and
 * `ret_trace`. */
HT_PRINTF(1, 0) static char *let_start(const char *arguments, char **ret_trace)
{
	struct victim victim;
	char command[200];
	char *path = tmpdir_path("trace");
	start(&victim, "parent", run_built("heaptap"));
	struct procsnap *before = procsnap_take(victim.pid, 0);
	snprintf(command, sizeof(command), arguments, path);
	char *answer = victim_ask(&victim, command, HEAPTAP_MS);
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
	*ret_trace = path;
	return answer;
}

HT_TEST(the_target_only_waits_for_heaptap)
{
	char *path, *answer = let_start("wait -d 500ms --json -o %s", &path);
	ck_assert_str_eq(answer, "status 0");
	json_decref(report_load(path));
	free(answer);
	free(path);
}

/* Until the capture ends, the target waits in a hook for heaptap, and heaptap waits for the target
 * to read its output. */
HT_TEST(the_target_reads_the_trace)
{
	int status;
	uint64_t calls;
	char *path, *answer = let_start("read %s -d 3s --lossless -o -", &path);
	ck_assert_int_eq(sscanf(answer, "status %d calls %lu", &status, &calls), 2);
	ck_assert_int_eq(status, 0);
	json_auto_t *report = report_load(path);
	ck_assert_uint_gt(report_u64(report, "totals.allocations"), 100000);
	free(answer);
	free(path);
}

/* The target allocates for each line that heaptap prints. */
HT_TEST(the_target_logs_what_heaptap_says)
{
	unsigned lines;
	int status;
	char *path, *answer = let_start("log -d 500ms -o %s", &path);
	ck_assert_int_eq(sscanf(answer, "status %d lines %u", &status, &lines), 2);
	ck_assert_msg(status == 0 && lines >= 3 && strstr(answer, path), "%s", answer);
	json_decref(report_load(path));
	free(answer);
	free(path);
}

/* --- the process that writes --- */

HT_TEST(the_writing_process_is_killed)
{
	struct victim victim;
	struct tap tap;
	start(&victim, "hostile", NULL);
	struct procsnap *before = procsnap_take(victim.pid, 0);
	tap_start(&tap, victim.pid, NULL);
	tap_wait_on(&tap, "/hostile");
	pid_t writer = writer_of(tap.run.pid);
	ck_assert_int_gt(writer, 0);
	kill(writer, SIGKILL);
	json_t *attach = tap_wait(&tap, 7);
	tap_check_equal(attach);
	json_decref(attach);
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
	json_decref(report_load_begun(tap.trace));
}

HT_SUITE_WAITING("integration/stalled", writes_stall_until_the_duration_is_over,
	writes_stall_until_a_signal, the_output_cannot_be_opened, the_reader_stops_reading)
