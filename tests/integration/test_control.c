/* SPDX-License-Identifier: Apache-2.0
 *
 * Other processes control a capture with status, list, mark and stop. Hostile clients and killed
 * heaptaps do not disturb it. Pauses: test_pause.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "format/control_client.h"
#include "tests/support/command.h"
#include "tests/support/ht_check.h"
#include "tests/support/report.h"
#include "tests/support/slow_analyzer.h"
#include "tests/support/steer.h"
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

static void end(void)
{
	victim_prove_alive(&victim);
	victim_stop(&victim);
}

/* --- status ---------------------------------------------------------------------------------- */

HT_TEST(status_tells_how_a_capture_is)
{
	char *out;
	begin_with((const char *[]){"-d", "1h", NULL});
	uint64_t before = steer_figure(victim.pid, "events");
	work("alloc 0 1000 104");
	run_until(steer_figure(victim.pid, "events") == before + 1000, LIMIT_MS);
	json_t *capture = steer_status(victim.pid);
	ck_assert_str_eq(report_text(capture, "state"), "recording");
	ck_assert_str_eq(report_text(capture, "comm"), "stepwise");
	/* A start does not move. */
	ck_assert_uint_eq(
		report_u64(capture, "start_unix_ns"), steer_figure(victim.pid, "start_unix_ns"));
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

HT_TEST(status_as_metrics)
{
	char *out, line[128];
	begin();
	ck_assert_int_eq(steer("status", victim.pid, "--metrics", &out, NULL), 0);
	snprintf(line, sizeof(line),
		"\nheaptap_paused{uid=\"%u\",pid=\"%d\",comm=\"stepwise\"} 0\n",
		(unsigned)geteuid(), victim.pid);
	ck_assert_msg(strstr(out, line), "%s", out);
	free(out);
	tap_check_clean(tap_stop(&tap, 0));
	end();
}

/* list shows all captures on the machine, also those of other targets. */
HT_TEST(two_captures_are_side_by_side)
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
	steer_do("stop", victim.pid, "--wait");
	tap_check_clean(tap_wait(&tap, 0));
	ck_assert_uint_eq(steer_figure(other.pid, "pid"), (uint64_t)other.pid);
	tap_check_clean(tap_stop(&second, 0));
	victim_stop(&other);
	end();
}

HT_TEST(the_socket_is_for_its_user_alone)
{
	struct control_client client;
	struct stat stat;
	char path[CONTROL_PATH_MAX + CONTROL_NAME_MAX + 2];
	begin();
	ck_no_err(control_client_find(victim.pid, &client));
	ck_assert_int_eq(lstat(client.directory, &stat), 0);
	ck_assert_uint_eq(stat.st_mode, S_IFDIR | 0700);
	int length = snprintf(path, sizeof(path), "%s/", client.directory);
	control_name(client.pid, client.start_ticks, 0, path + length);
	ck_assert_int_eq(lstat(path, &stat), 0);
	ck_assert_uint_eq(stat.st_mode, S_IFSOCK | 0600);
	tap_check_clean(tap_stop(&tap, 0));
	ck_assert_int_ne(lstat(path, &stat), 0);
	end();
}

/* --- marks ----------------------------------------------------------------------------------- */

#define HOSTILE "50%% \x1b[2J\n\"</script>"

HT_TEST(a_mark_stands_in_the_trace)
{
	begin();
	work("alloc 0 100 104");
	steer_do("mark", victim.pid, "cache cleared");
	steer_do("mark", victim.pid, HOSTILE);
	work("alloc 100 300 104");
	ck_assert_uint_eq(steer_figure(victim.pid, "marks"), 2);
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

HT_TEST(a_mark_has_limits)
{
	static char text[CONTROL_MARK_MAX + 2];
	char *err;
	begin();
	memset(text, 'x', CONTROL_MARK_MAX);
	steer_do("mark", victim.pid, text);
	text[CONTROL_MARK_MAX] = 'x';
	ck_assert_int_eq(steer("mark", victim.pid, text, NULL, &err), 2);
	ck_assert_ptr_nonnull(strstr(err, "at most 1000 bytes"));
	free(err);
	ck_assert_int_eq(steer("mark", victim.pid, NULL, NULL, NULL), 2);
	ck_assert_int_eq(steer("mark", victim.pid, "", NULL, NULL), 2);
	ck_assert_uint_eq(steer_figure(victim.pid, "marks"), 1);
	tap_check_clean(tap_stop(&tap, 0));
	end();
}

/* --- stop ------------------------------------------------------------------------------------ */

HT_TEST(stop_waits_for_the_proof)
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

HT_TEST(stop_tells_what_the_capture_ends_with)
{
	char *out;
	begin();
	run_until(steer_figure(victim.pid, "elapsed_ns") > 0, LIMIT_MS);
	struct run stop;
	char number[16];
	snprintf(number, sizeof(number), "%d", victim.pid);
	kill(victim.pid, SIGKILL);
	ck_assert_int_eq(victim_wait(&victim, LIMIT_MS), 128 + SIGKILL);
	run_start(&stop,
		(const char *[]){run_built("heaptap"), "stop", "-p", number, "--wait", NULL});
	int status = run_wait(&stop, LIMIT_MS);
	out = run_out(&stop);
	/* The capture may have ended before stop reaches it. */
	ck_assert_msg(status == 5 || status == REFUSED || status == 1, "%d: %s", status, out);
	free(out);
	run_deinit(&stop);
	json_decref(tap_wait(&tap, 5));
}

/* stop ends the capture of a command of `heaptap run`: the command runs on, and heaptap waits for
 * it and ends with its status. */
HT_TEST(a_command_goes_on_when_its_capture_is_stopped)
{
	static struct command command;
	struct run run;
	HT_FREED char *trace = tmpdir_path("run.htap");
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
}

/* --- while names are looked up --------------------------------------------------------------- */

/* Starts a heaptap whose lookup of names takes until slow_analyzer_let_go. */
static void begin_with_slow_names(void)
{
	victim_start(&victim, (const char *[]){run_built("tests/targets/stepwise"), NULL});
	slow_analyzer_begin();
	tap_start(&tap, victim.pid, NULL);
	slow_analyzer_end();
	tap_wait_on(&tap, "/stepwise");
}

static bool is_naming(void)
{
	json_auto_t *capture = steer_status(victim.pid);
	const char *state = report_text(capture, "state");
	const bool ret = strcmp(state, "naming") == 0;
	ck_assert_msg(ret || strcmp(state, "recording") == 0 || strcmp(state, "detaching") == 0,
		"%s", state);
	return ret;
}

/* While heaptap looks up names, the target is already clean, and status says so. */
HT_TEST(a_capture_answers_while_names_are_looked_up)
{
	char *out, *err, number[16];
	struct run stop;
	begin_with_slow_names();
	work("alloc 0 100 104");
	snprintf(number, sizeof(number), "%d", victim.pid);
	steer_do("stop", victim.pid, NULL);
	run_until(is_naming(), LIMIT_MS);
	char *ours = procsnap_ours(victim.pid);
	ck_assert_str_eq(ours, "");
	free(ours);
	ck_assert_int_eq(steer("status", victim.pid, NULL, &out, NULL), 0);
	ck_assert_ptr_nonnull(strstr(out, "writes names into the trace"));
	free(out);
	ck_assert_int_eq(steer("pause", victim.pid, NULL, NULL, &err), REFUSED);
	ck_assert_ptr_nonnull(strstr(err, "is ending"));
	free(err);
	run_start(&stop,
		(const char *[]){run_built("heaptap"), "stop", "-p", number, "--wait", NULL});
	run_until(strstr(err = run_err(&stop), "was left; writing names"), LIMIT_MS);
	slow_analyzer_let_go();
	ck_assert_int_eq(run_wait(&stop, LIMIT_MS), 0);
	out = run_out(&stop);
	ck_assert_ptr_nonnull(strstr(out, "ended with status 0"));
	free(out);
	run_deinit(&stop);
	tap_check_clean(tap_wait(&tap, 0));
	end();
}

/* --- what goes wrong ------------------------------------------------------------------------- */

HT_TEST(without_a_capture_there_is_nothing_to_steer)
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

/* Has the process executed sleep(1), and does it sleep? */
static bool sleeps(pid_t pid)
{
	char path[64];
	long call = -1;
	snprintf(path, sizeof(path), "/proc/%d/syscall", pid);
	FILE *file = fopen(path, "re");
	bool is_call = file && fscanf(file, "%ld", &call) == 1 && call == SYS_clock_nanosleep;
	if (file)
		fclose(file);
	return is_call;
}

/* Does the capture of `pid` answer? It must not have ended. */
static bool answers(struct run *capture, pid_t pid)
{
	if (run_has_ended(capture))
		ck_abort_msg("heaptap ended early: %s", run_err(capture));
	return steer("status", pid, NULL, NULL, NULL) == 0;
}

HT_TEST(root_steers_for_others_and_others_not_for_root)
{
	struct run program, capture, asking;
	char number[16], *err;
	if (geteuid() != 0) {
		printf("skipped: control: only root can become another user\n");
		return;
	}
	run_start_as_nobody(&asking, (const char *[]){run_built("heaptap"), "version", NULL});
	if (run_wait(&asking, LIMIT_MS) != 0) {
		printf("skipped: control: user nobody cannot run %s\n", run_built("heaptap"));
		return;
	}
	run_deinit(&asking);
	run_start_as_nobody(&program, (const char *[]){"sleep", "1000", NULL});
	run_until(sleeps(program.pid), LIMIT_MS);
	snprintf(number, sizeof(number), "%d", program.pid);
	run_start_as_nobody(&capture, (const char *[]){run_built("heaptap"), "attach", "-q", "-p",
					      number, "-o", "-", NULL});
	run_until(answers(&capture, program.pid), LIMIT_MS);
	ck_assert_uint_ne(steer_figure(program.pid, "uid"), 0);
	ck_assert_int_eq(steer("stop", program.pid, "--wait", NULL, NULL), 0);
	ck_assert_int_eq(run_wait(&capture, LIMIT_MS), 0);
	run_deinit(&capture);
	run_deinit(&program);
	begin();
	snprintf(number, sizeof(number), "%d", victim.pid);
	run_start_as_nobody(
		&asking, (const char *[]){run_built("heaptap"), "stop", "-p", number, NULL});
	ck_assert_int_eq(run_wait(&asking, LIMIT_MS), REFUSED);
	err = run_err(&asking);
	ck_assert_msg(strstr(err, "root or another user"), "%s", err);
	free(err);
	run_deinit(&asking);
	steer_check_state(victim.pid, "recording");
	tap_check_clean(tap_stop(&tap, 0));
	end();
}

/* A socket stays if heaptap and its guardian were killed and recover was not called. */
HT_TEST(a_stale_socket_is_replaced)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct control_client client;
	char name[CONTROL_NAME_MAX];
	begin();
	ck_no_err(control_client_find(victim.pid, &client));
	tap_check_clean(tap_stop(&tap, 0));
	int directory = control_open_directory(client.directory, geteuid(), true);
	ck_assert_int_ge(directory, 0);
	control_name(client.pid, client.start_ticks, 0, name);
	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%.60s", directory,
		name);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	close(fd);
	close(directory);
	tap_start(&tap, victim.pid, NULL);
	tap_wait_on(&tap, "/stepwise");
	steer_check_state(victim.pid, "recording");
	tap_check_clean(tap_stop(&tap, 0));
	end();
}

/* Each capture removes sockets of captures that are over. */
static void capture_another(void)
{
	struct victim other;
	struct tap its;
	victim_start(&other, (const char *[]){run_built("tests/targets/stepwise"), NULL});
	tap_start(&its, other.pid, NULL);
	tap_wait_on(&its, "/stepwise");
	tap_check_clean(tap_stop(&its, 0));
	victim_stop(&other);
}

/* The guardian is killed, too, because it would remove the socket. Another capture leaves it. */
HT_TEST(a_killed_heaptap_is_recognised_and_followed_by_another)
{
	char *err;
	begin();
	tap_abandon(&tap);
	capture_another();
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
	steer_check_state(victim.pid, "recording");
	steer_do("stop", victim.pid, "--wait");
	tap_check_clean(tap_wait(&tap, 0));
	end();
}

/* Connects without waiting. Returns -1 if the server's queue is full. */
static int connect_once(const struct control_client *client)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char name[CONTROL_NAME_MAX];
	control_name(client->pid, client->start_ticks, 0, name);
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

HT_TEST(hostile_clients_do_not_disturb_the_capture)
{
	static const char garbage[] = "GET /\xff\x00\n\n\nheaptap/1 stop\n";
	static int fds[CLIENTS];
	struct control_client client;
	begin();
	ck_no_err(control_client_find(victim.pid, &client));
	for (int i = 0; i < CLIENTS; i++) {
		fds[i] = connect_once(&client);
		/* A third of the clients send nothing, a third send garbage, and a third send half
		 * a request. */
		if (fds[i] >= 0 && i % 3)
			(void)!send(fds[i], i % 3 == 1 ? garbage : "heaptap/1 st",
				i % 3 == 1 ? sizeof(garbage) - 1 : 12, MSG_NOSIGNAL);
		if (i % 100 == 0)
			work("alloc 0 1000 104"), work("free 0 1000");
	}
	steer_check_state(victim.pid, "recording");
	for (int i = 0; i < CLIENTS; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	steer_do("stop", victim.pid, "--wait");
	json_t *attach = tap_wait(&tap, 0);
	tap_check_clean(attach);
	tap_check_balance(attach, 2 * 10 * 1000);
	json_decref(attach);
	end();
}

HT_TEST(reports_wrong_use)
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

HT_SUITE("integration/control")
