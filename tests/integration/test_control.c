/* SPDX-License-Identifier: Apache-2.0
 *
 * Captures that are steered by other processes: status, list, pause, resume, mark and stop; what
 * hostile clients and killed heaptaps leave alone.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "format/control_client.h"
#include "tests/support/command.h"
#include "tests/support/ht_check.h"
#include "tests/support/report.h"
#include "tests/support/tap.h"
#include "tests/support/tmpdir.h"
#include "tests/support/tracefile.h"
#include "tests/support/victim.h"

#define LIMIT_MS 20000
#define REFUSED	 3
#define CLIENTS	 1000

static struct victim victim;
static struct tap tap;

static void begin_with(const char *const extra[])
{
	victim_start(&victim, (const char *[]){run_built("tests/targets/stepwise"), NULL});
	tap_start(&tap, victim.pid, extra);
	tap_wait_on(&tap, "/stepwise");
}

static void begin(void)
{
	begin_with(NULL);
}

static void work(const char *command)
{
	free(victim_ask(&victim, command, LIMIT_MS));
}

/* heaptap COMMAND -p PID WORD...: its status, what it printed, and what it complained of. */
static int steer(const char *command, pid_t pid, const char *word, char **out, char **err)
{
	char number[16];
	snprintf(number, sizeof(number), "%d", pid);
	return run_program(
		(const char *[]){run_built("heaptap"), command, "-p", number, word, NULL}, LIMIT_MS,
		out, err);
}

static void do_it(const char *command, const char *word)
{
	char *err;
	int status = steer(command, victim.pid, word, NULL, &err);
	ck_assert_msg(status == 0, "%s ended with %d: %s", command, status, err);
	free(err);
}

/* `heaptap status --json` of the victim's capture. */
static json_t *status_of(pid_t pid)
{
	json_t *status = report_run("status", pid, 0);
	ck_assert_str_eq(report_text(status, "schema"), "heaptap.status/1");
	ck_assert_uint_eq(json_array_size(report_at(status, "captures")), 1);
	json_t *capture = json_incref(json_array_get(report_at(status, "captures"), 0));
	json_decref(status);
	ck_assert_uint_eq(report_u64(capture, "pid"), (uint64_t)pid);
	return capture;
}

static uint64_t figure_of(pid_t pid, const char *name)
{
	json_t *capture = status_of(pid);
	uint64_t figure = report_u64(capture, name);
	json_decref(capture);
	return figure;
}

static void check_state(const char *state)
{
	json_t *capture = status_of(victim.pid);
	ck_assert_str_eq(report_text(capture, "state"), state);
	json_decref(capture);
}

static void end(void)
{
	victim_prove_alive(&victim);
	victim_stop(&victim);
}

/* --- status ---------------------------------------------------------------------------------- */

START_TEST(status_tells_how_a_capture_is)
{
	char *out;
	begin_with((const char *[]){"-d", "1h", NULL});
	uint64_t before = figure_of(victim.pid, "events");
	work("alloc 0 1000 104");
	run_until(figure_of(victim.pid, "events") == before + 1000, LIMIT_MS);
	json_t *capture = status_of(victim.pid);
	ck_assert_str_eq(report_text(capture, "state"), "recording");
	ck_assert_str_eq(report_text(capture, "comm"), "stepwise");
	ck_assert_str_eq(report_text(capture, "trace"), tap.trace);
	ck_assert_str_eq(report_text(capture, "partial"), "");
	ck_assert_uint_eq(report_u64(capture, "heaptap_pid"), (uint64_t)tap.run.pid);
	ck_assert_uint_eq(report_u64(capture, "uid"), geteuid());
	ck_assert_uint_eq(report_u64(capture, "duration_ns"), 3600000000000u);
	ck_assert_uint_gt(report_u64(capture, "elapsed_ns"), 0);
	ck_assert_uint_gt(report_u64(capture, "trace_bytes"), 0);
	ck_assert_uint_eq(report_u64(capture, "dropped_events"), 0);
	json_decref(capture);
	ck_assert_int_eq(steer("status", victim.pid, NULL, &out, NULL), 0);
	ck_assert_ptr_nonnull(strstr(out, "stepwise"));
	ck_assert_ptr_nonnull(strstr(out, "ends at"));
	ck_assert_ptr_nonnull(strstr(out, tap.trace));
	free(out);
	tap_check_clean(tap_stop(&tap, 0));
	end();
}
END_TEST

/* All that run on the machine are listed: others, too. */
START_TEST(two_captures_are_side_by_side)
{
	static struct victim other;
	static struct tap second;
	char *out, line[64];
	begin();
	victim_start(&other, (const char *[]){run_built("tests/targets/stepwise"), NULL});
	tap_start(&second, other.pid, NULL);
	tap_wait_on(&second, "/stepwise");
	ck_assert_int_eq(run_program((const char *[]){run_built("heaptap"), "list", NULL}, LIMIT_MS,
				 &out, NULL),
		0);
	for (int i = 0; i < 2; i++) {
		snprintf(line, sizeof(line), "\n%-8d stepwise ", i ? other.pid : victim.pid);
		ck_assert_msg(strstr(out, line), "%s not in: %s", line, out);
	}
	free(out);
	do_it("stop", "--wait");
	tap_check_clean(tap_wait(&tap, 0));
	ck_assert_uint_eq(figure_of(other.pid, "pid"), (uint64_t)other.pid);
	tap_check_clean(tap_stop(&second, 0));
	victim_stop(&other);
	end();
}
END_TEST

START_TEST(the_socket_is_for_its_user_alone)
{
	struct control_client client;
	struct stat stat;
	char path[CONTROL_PATH_MAX + CONTROL_NAME_MAX + 2];
	begin();
	ck_no_err(control_client_find(victim.pid, &client));
	ck_assert_int_eq(lstat(client.directory, &stat), 0);
	ck_assert_uint_eq(stat.st_mode, S_IFDIR | 0700);
	int length = snprintf(path, sizeof(path), "%s/", client.directory);
	control_name(client.pid, client.start_ticks, path + length);
	ck_assert_int_eq(lstat(path, &stat), 0);
	ck_assert_uint_eq(stat.st_mode, S_IFSOCK | 0600);
	tap_check_clean(tap_stop(&tap, 0));
	ck_assert_int_ne(lstat(path, &stat), 0);
	end();
}
END_TEST

/* --- pause ----------------------------------------------------------------------------------- */

static uint64_t count_events(const struct tracefile *file, enum abi_event_kind kind)
{
	uint64_t count = 0;
	for (size_t i = 0; i < file->event_count; i++)
		count += file->event[i].kind == kind;
	return count;
}

static void check_pauses(const json_t *report, size_t count)
{
	const json_t *pauses = report_at(report, "pauses");
	uint64_t duration_ns = report_u64(report, "capture.duration_ns"), last_ns = 0;
	ck_assert_uint_eq(json_array_size(pauses), count);
	for (size_t i = 0; i < count; i++) {
		const json_t *pause = json_array_get(pauses, i);
		uint64_t begin_ns = report_u64(pause, "begin_ns");
		ck_assert_uint_ge(begin_ns, last_ns);
		last_ns = report_u64(pause, "end_ns");
		ck_assert_uint_gt(last_ns, begin_ns);
		ck_assert_uint_le(last_ns, duration_ns);
	}
}

START_TEST(a_pause_is_exact)
{
	struct tracefile file;
	begin();
	work("alloc 0 1000 104");
	do_it("pause", NULL);
	check_state("paused");
	work("free 0 500");
	work("alloc 1000 2000 208");
	work("realloc 500 600 312");
	work("free 1000 1500");
	do_it("resume", NULL);
	check_state("recording");
	work("free 1500 2000");
	work("free 500 1000"); /* the first hundred of them are not those that were recorded */
	work("alloc 2000 2100 416");
	do_it("stop", "--wait");
	tap_check_clean(tap_wait(&tap, 0));

	ck_assert_uint_eq(tracefile_blocks_of(tap.trace, 104), 1000);
	ck_assert_uint_eq(tracefile_blocks_of(tap.trace, 208), 0);
	ck_assert_uint_eq(tracefile_blocks_of(tap.trace, 312), 0);
	ck_assert_uint_eq(tracefile_blocks_of(tap.trace, 416), 100);
	tracefile_load(tap.trace, &file);
	ck_assert_uint_eq(count_events(&file, ABI_EVENT_ALLOC), 1100);
	ck_assert_uint_eq(count_events(&file, ABI_EVENT_FREE), 500 + 500 + 500 + 500);
	ck_assert_uint_eq(count_events(&file, ABI_EVENT_REALLOC_BEGIN), 100);
	ck_assert_uint_eq(count_events(&file, ABI_EVENT_REALLOC_FREED), 100);
	ck_assert_uint_eq(count_events(&file, ABI_EVENT_REALLOC_END), 0);
	tracefile_deinit(&file);

	json_t *report = report_load(tap.trace);
	ck_assert_uint_eq(report_u64(report, "totals.allocations"), 1100);
	ck_assert_uint_eq(report_u64(report, "totals.outstanding_blocks"), 100);
	check_pauses(report, 1);
	json_decref(report);
	end();
}
END_TEST

/* Idempotent, as often as one likes, and the last one lasts up to the end. */
START_TEST(pauses_may_be_many_and_the_last_one_open)
{
	begin();
	work("alloc 0 4 104");
	do_it("pause", NULL);
	do_it("pause", NULL);
	work("alloc 4 104 104");
	do_it("resume", NULL);
	do_it("resume", NULL);
	work("alloc 104 108 104");
	do_it("pause", NULL);
	work("alloc 108 208 104");
	ck_assert_uint_eq(figure_of(victim.pid, "pauses"), 2);
	tap_check_clean(tap_stop(&tap, 0));
	ck_assert_uint_eq(tracefile_blocks_of(tap.trace, 104), 8);
	json_t *report = report_load(tap.trace);
	check_pauses(report, 2);
	const json_t *last = json_array_get(report_at(report, "pauses"), 1);
	ck_assert_uint_eq(report_u64(last, "end_ns"), report_u64(report, "capture.duration_ns"));
	json_decref(report);
	end();
}
END_TEST

/* A heaptap that is killed in a pause leaves a process in which only some functions are hooked. */
START_TEST(a_heaptap_killed_in_a_pause_leaves_nothing)
{
	begin();
	do_it("pause", NULL);
	pid_t guardian = tap_kill_daemon(&tap);
	work("alloc 0 100 104");
	kill(guardian, SIGCONT);
	run_until(tap_guardian_is_done(victim.pid), LIMIT_MS);
	tap_verify(&tap);
	work("free 0 100");
	end();
}
END_TEST

/* --- marks ----------------------------------------------------------------------------------- */

#define HOSTILE "50%% \x1b[2J\n\"</script>"

START_TEST(a_mark_stands_in_the_trace)
{
	begin();
	work("alloc 0 100 104");
	do_it("mark", "cache cleared");
	do_it("mark", HOSTILE);
	work("alloc 100 300 104");
	ck_assert_uint_eq(figure_of(victim.pid, "marks"), 2);
	tap_check_clean(tap_stop(&tap, 0));

	json_t *report = report_load(tap.trace);
	const json_t *marks = report_at(report, "marks");
	ck_assert_uint_eq(json_array_size(marks), 2);
	ck_assert_str_eq(report_text(json_array_get(marks, 0), "text"), "cache cleared");
	ck_assert_uint_le(report_u64(json_array_get(marks, 0), "time_ns"),
		report_u64(json_array_get(marks, 1), "time_ns"));
	json_decref(report);

	char *out;
	ck_assert_int_eq(run_program((const char *[]){run_built("heaptap"), "report", tap.trace,
					     "--from", "cache cleared", "--json", NULL},
				 LIMIT_MS, &out, NULL),
		0);
	report = report_parse(out);
	ck_assert_uint_ge(report_u64(report, "window.from_ns"), 1);
	json_decref(report);
	free(out);
	end();
}
END_TEST

START_TEST(a_mark_has_limits)
{
	static char text[CONTROL_MARK_MAX + 2];
	char *err;
	begin();
	memset(text, 'x', CONTROL_MARK_MAX);
	do_it("mark", text);
	text[CONTROL_MARK_MAX] = 'x';
	ck_assert_int_eq(steer("mark", victim.pid, text, NULL, &err), 2);
	ck_assert_ptr_nonnull(strstr(err, "at most 1000 bytes"));
	free(err);
	ck_assert_int_eq(steer("mark", victim.pid, NULL, NULL, NULL), 2);
	ck_assert_int_eq(steer("mark", victim.pid, "", NULL, NULL), 2);
	ck_assert_uint_eq(figure_of(victim.pid, "marks"), 1);
	tap_check_clean(tap_stop(&tap, 0));
	end();
}
END_TEST

/* --- stop ------------------------------------------------------------------------------------ */

START_TEST(stop_waits_for_the_proof)
{
	char *out;
	begin();
	work("alloc 0 100 104");
	ck_assert_int_eq(steer("stop", victim.pid, "--wait", &out, NULL), 0);
	ck_assert_ptr_nonnull(strstr(out, "ended with status 0"));
	ck_assert_ptr_nonnull(strstr(out, tap.trace));
	free(out);
	char *ours = procsnap_ours(victim.pid);
	ck_assert_str_eq(ours, "");
	free(ours);
	json_t *attach = tap_wait(&tap, 0);
	ck_assert_str_eq(report_text(attach, "ended"), "stop");
	tap_check_clean(attach);
	json_decref(attach);
	end();
}
END_TEST

START_TEST(stop_tells_what_the_capture_ends_with)
{
	char *out;
	begin();
	run_until(figure_of(victim.pid, "elapsed_ns") > 0, LIMIT_MS);
	struct run stop;
	char number[16];
	snprintf(number, sizeof(number), "%d", victim.pid);
	kill(victim.pid, SIGKILL);
	ck_assert_int_eq(victim_wait(&victim, LIMIT_MS), 128 + SIGKILL);
	run_start(&stop,
		(const char *[]){run_built("heaptap"), "stop", "-p", number, "--wait", NULL});
	int status = run_wait(&stop, LIMIT_MS);
	out = run_out(&stop);
	/* The capture may be over before it is asked. */
	ck_assert_msg(status == 5 || status == REFUSED || status == 1, "%d: %s", status, out);
	free(out);
	run_deinit(&stop);
	json_decref(tap_wait(&tap, 5));
}
END_TEST

/* The window of a command that heaptap has started: it runs on, and heaptap ends as it does. */
START_TEST(a_command_goes_on_when_its_capture_is_stopped)
{
	static struct command command;
	struct run run;
	char *trace = tmpdir_path("run.htap");
	command_start(&command, &run,
		(const char *[]){run_built("heaptap"), "run", "-o", trace, "--",
			run_built("tests/targets/stepwise"), NULL},
		LIMIT_MS);
	pid_t pid = command.victim.pid;
	free(victim_ask(&command.victim, "alloc 0 100 104", LIMIT_MS));
	ck_assert_int_eq(steer("stop", pid, "--wait", NULL, NULL), 0);
	free(victim_ask(&command.victim, "alloc 100 200 208", LIMIT_MS));
	ck_assert_int_eq(steer("status", pid, NULL, NULL, NULL), REFUSED);
	ck_assert(!run_has_ended(&run));
	victim_send(&command.victim, "stop");
	ck_assert_int_eq(run_wait(&run, LIMIT_MS), 0);
	ck_assert_uint_eq(tracefile_blocks_of(trace, 104), 100);
	ck_assert_uint_eq(tracefile_blocks_of(trace, 208), 0);
	command_deinit(&command);
	run_deinit(&run);
	free(trace);
}
END_TEST

/* --- what goes wrong ------------------------------------------------------------------------- */

START_TEST(without_a_capture_there_is_nothing_to_steer)
{
	static const char *const commands[] = {"status", "stop", "pause", "resume"};
	char *err;
	victim_start(&victim, (const char *[]){run_built("tests/targets/stepwise"), NULL});
	for (size_t i = 0; i < HT_ARRAY_SIZE(commands); i++) {
		ck_assert_int_eq(steer(commands[i], victim.pid, NULL, NULL, &err), REFUSED);
		ck_assert_msg(strstr(err, "no capture of process"), "%s", err);
		ck_assert_msg(strstr(err, "/heaptap"), "%s", err);
		free(err);
	}
	ck_assert_int_eq(steer("mark", victim.pid, "here", NULL, NULL), REFUSED);
	end();
}
END_TEST

/* With its guardian, so that nobody removes the socket. */
START_TEST(a_killed_heaptap_is_recognised_and_followed_by_another)
{
	char *err;
	begin();
	tap_abandon(&tap);
	ck_assert_int_eq(steer("status", victim.pid, NULL, NULL, &err), REFUSED);
	ck_assert_msg(strstr(err, "was killed"), "%s", err);
	free(err);
	json_decref(report_run("recover", victim.pid, 0));
	tap_verify(&tap);
	ck_assert_int_eq(steer("status", victim.pid, NULL, NULL, &err), REFUSED);
	ck_assert_msg(!strstr(err, "was killed"), "%s", err);
	free(err);
	tap_start(&tap, victim.pid, NULL);
	tap_wait_on(&tap, "/stepwise");
	check_state("recording");
	do_it("stop", "--wait");
	tap_check_clean(tap_wait(&tap, 0));
	end();
}
END_TEST

/* -1: the queue is full. */
static int connect_once(const struct control_client *client)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char name[CONTROL_NAME_MAX];
	control_name(client->pid, client->start_ticks, name);
	int length = snprintf(
		address.sun_path, sizeof(address.sun_path), "%.40s/%.60s", client->directory, name);
	ck_assert_int_lt(length, (int)sizeof(address.sun_path));
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
		ck_assert_int_eq(errno, EAGAIN);
		close(fd);
		return -1;
	}
	return fd;
}

START_TEST(hostile_clients_disturb_nobody)
{
	static const char garbage[] = "GET /\xff\x00\n\n\nheaptap/1 stop\n";
	static int fds[CLIENTS];
	struct control_client client;
	begin();
	ck_no_err(control_client_find(victim.pid, &client));
	for (int i = 0; i < CLIENTS; i++) {
		fds[i] = connect_once(&client);
		/* A third says nothing, a third garbage, a third half a request. */
		if (fds[i] >= 0 && i % 3)
			(void)!send(fds[i], i % 3 == 1 ? garbage : "heaptap/1 st",
				i % 3 == 1 ? sizeof(garbage) - 1 : 12, MSG_NOSIGNAL);
		if (i % 100 == 0)
			work("alloc 0 1000 104"), work("free 0 1000");
	}
	check_state("recording");
	for (int i = 0; i < CLIENTS; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	do_it("stop", "--wait");
	json_t *attach = tap_wait(&tap, 0);
	tap_check_clean(attach);
	tap_check_balance(attach, 2 * 10 * 1000);
	json_decref(attach);
	end();
}
END_TEST

START_TEST(wrong_use_is_told)
{
	static const struct {
		const char *const words[5];
		const char *text;
	} wrong[] = {
		{{"stop"}, "the process is missing"},
		{{"pause"}, "the process is missing"},
		{{"mark", "here"}, "the process is missing"},
		{{"mark", "-p", "1", "a", "b"}, "not expected here"},
		{{"list", "-p", "1"}, "list prints all"},
		{{"pause", "-p", "1", "--wait"}, "only stop has this option"},
		{{"status", "5"}, "a process is named with -p"},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(wrong); i++) {
		const char *argv[7] = {run_built("heaptap")};
		memcpy(&argv[1], wrong[i].words, sizeof(wrong[i].words));
		char *err;
		ck_assert_int_eq(run_program(argv, LIMIT_MS, NULL, &err), 2);
		ck_assert_msg(strstr(err, wrong[i].text), "%s", err);
		free(err);
	}
}
END_TEST

HT_SUITE("integration/control", status_tells_how_a_capture_is, two_captures_are_side_by_side,
	the_socket_is_for_its_user_alone, a_pause_is_exact,
	pauses_may_be_many_and_the_last_one_open, a_heaptap_killed_in_a_pause_leaves_nothing,
	a_mark_stands_in_the_trace, a_mark_has_limits, stop_waits_for_the_proof,
	stop_tells_what_the_capture_ends_with, a_command_goes_on_when_its_capture_is_stopped,
	without_a_capture_there_is_nothing_to_steer,
	a_killed_heaptap_is_recognised_and_followed_by_another, hostile_clients_disturb_nobody,
	wrong_use_is_told)
