/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap as the parent of the command that it records: signals, the terminal, pipes, time, its own
 * death, and a command that becomes another program.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/command.h"
#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/report.h"
#include "tests/support/run.h"
#include "tests/support/tmpdir.h"

#define RUN_MS	  60000
#define WORDS_MAX 24

/* The arguments of heaptap run with `words`: further options, "--", the command. */
struct words {
	const char *argv[WORDS_MAX];
};

static char *trace_path(void)
{
	static char *path;
	path = path ? path : tmpdir_path("parent.htap");
	return path;
}

static struct words words_of(const char *const words[])
{
	struct words ret = {{run_built("heaptap"), "run", "-f", "-o", trace_path()}};
	for (size_t at = 5; *words && at < WORDS_MAX - 1; words++)
		ret.argv[at++] = *words;
	return ret;
}

/* Starts heaptap run, and waits until the command's last program is ready. */
static void start_command(struct run *run, struct command *command, const char *const words[])
{
	struct words all = words_of(words);
	command_start(command, run, all.argv, RUN_MS);
}

static bool has_said(const struct run *run, const char *text)
{
	HT_FREED char *err = run_err(run);
	bool has = strstr(err, text) != NULL;
	return has;
}

static bool is_in_state(pid_t pid, char state)
{
	char path[32], text[512] = "";
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
		text[0] = '\0';
	close(fd);
	const char *end = strrchr(text, ')');
	return end && end[1] && end[2] == state;
}

/* --- time, and death --- */

HT_TEST(window_that_ends_before_the_command)
{
	struct command command;
	struct run run;
	start_command(&run, &command,
		(const char *[]){
			"-d", "50ms", "--", run_built("tests/targets/busy"), "-t", "2", NULL});
	run_until(has_said(&run, "process unchanged: 6 checks"), RUN_MS);
	ck_assert(procsnap_is_clean(command.victim.pid));
	victim_prove_alive(&command.victim);
	ck_assert(!run_has_ended(&run));
	victim_send(&command.victim, "stop");
	ck_assert_int_eq(run_wait(&run, RUN_MS), 0);
	run_deinit(&run);
	command_deinit(&command);
}

/* --- the same state as without heaptap --- */

#define TWIN_THREADS 8

/* The state of each thread that heaptap could change, as the kernel reports it, in the order in
 * which the threads were created. */
struct crowd {
	char thread[TWIN_THREADS][1024];
	size_t count;
};

static int by_number(const struct dirent **a, const struct dirent **b)
{
	return (int)strtol((*a)->d_name, NULL, 10) - (int)strtol((*b)->d_name, NULL, 10);
}

static int is_number(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

static void read_thread(const char *path, char *text, size_t bytes)
{
	static const char *const wanted[] = {"Name:", "Umask:", "TracerPid:", "Uid:", "Gid:",
		"Groups:", "SigPnd:", "ShdPnd:", "SigBlk:", "SigIgn:", "SigCgt:", "CapInh:",
		"CapPrm:", "CapEff:", "CapBnd:", "CapAmb:", "NoNewPrivs:", "Seccomp:",
		"Seccomp_filters:", "Speculation_", "Cpus_allowed:", "VmLck:", "VmPin:"};
	char line[256];
	size_t used = 0;
	FILE *status = fopen(path, "re");
	ck_assert_ptr_nonnull(status);
	while (fgets(line, sizeof(line), status))
		for (size_t i = 0; i < HT_ARRAY_SIZE(wanted); i++)
			if (!strncmp(line, wanted[i], strlen(wanted[i])) && used < bytes)
				used += (size_t)snprintf(text + used, bytes - used, "%s", line);
	fclose(status);
}

static void read_crowd(pid_t pid, struct crowd *ret)
{
	char path[320];
	struct dirent **task;
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	int count = scandir(path, &task, is_number, by_number);
	ck_assert_int_gt(count, 0);
	ck_assert_int_le(count, TWIN_THREADS);
	*ret = (struct crowd){.count = (size_t)count};
	for (int i = 0; i < count; i++) {
		snprintf(path, sizeof(path), "/proc/%d/task/%s/status", pid, task[i]->d_name);
		read_thread(path, ret->thread[i], sizeof(ret->thread[i]));
		free(task[i]);
	}
	free(task);
}

static void check_crowd(const struct crowd *twin, const struct crowd *now)
{
	ck_assert_uint_eq(now->count, twin->count);
	for (size_t i = 0; i < twin->count; i++)
		ck_assert_msg(!strcmp(twin->thread[i], now->thread[i]),
			"thread %zu is\n%sits twin's was\n%s", i, now->thread[i], twin->thread[i]);
}

/* Bind all slots: an unbound slot that heaptap has reset to lazy binding would be a harmless
 * difference. */
static void bind_now(void *context)
{
	command_prepare(context);
	setenv("LD_BIND_NOW", "1", 1);
}

/* Compares the command after detach with a twin, a run of the same program without heaptap. Without
 * randomization and with the same pipes all is equal, except TIDs and the random secret that the
 * dynamic linker keeps in read-only data. */
static void check_like_its_twin(const char *name, const char *option, unsigned flags)
{
	const char *const direct[] = {
		"/usr/bin/setarch", "-R", run_built(name), option, option ? "2" : NULL, NULL};
	struct words all = words_of((const char *[]){
		"-d", "50ms", "--", run_built(name), option, option ? "2" : NULL, NULL});
	const char *argv[WORDS_MAX + 2] = {"/usr/bin/setarch", "-R"};
	struct command command;
	struct run twin, run;
	struct crowd twin_crowd, crowd;
	memcpy(argv + 2, all.argv, sizeof(all.argv));
	/* heaptap writes messages to the stderr that it shares with the command, so file offsets
	 * move. */
	flags |= PROCSNAP_THREADS_CHANGE | PROCSNAP_FILES_MOVE;
	command_init(&command);
	run_start_prepared(&twin, direct, bind_now, &command);
	ck_assert(command_begins(&command, RUN_MS));
	struct procsnap *before = procsnap_take(command.victim.pid, flags);
	read_crowd(command.victim.pid, &twin_crowd);
	run_deinit(&twin);
	run_start_prepared(&run, argv, bind_now, &command);
	command_forked(&command);
	ck_assert(command_begins(&command, RUN_MS));
	run_until(has_said(&run, "process unchanged: 6 checks"), RUN_MS);
	ck_assert(!run_has_ended(&run));
	read_crowd(command.victim.pid, &crowd);
	check_crowd(&twin_crowd, &crowd);
	procsnap_verify_but(before, command.victim.pid, (const char *[]){"text ", NULL});
	victim_prove_alive(&command.victim);
	victim_send(&command.victim, "stop");
	ck_assert_int_eq(run_wait(&run, RUN_MS), 0);
	run_deinit(&run);
	command_deinit(&command);
}

HT_TEST(detached_it_is_like_its_twin)
{
	check_like_its_twin("tests/targets/busy", "-t", 0);
}

HT_TEST(detached_it_is_like_its_still_twin)
{
	check_like_its_twin("tests/targets/plughost", NULL, PROCSNAP_STILL);
}

HT_TEST(killed_while_recording)
{
	struct command command;
	struct run run;
	ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	start_command(&run, &command,
		(const char *[]){"--", run_built("tests/targets/busy"), "-t", "2", NULL});
	ck_assert(!procsnap_is_clean(command.victim.pid));
	kill(run.pid, SIGKILL);
	ck_assert_int_eq(run_wait(&run, RUN_MS), 128 + SIGKILL);
	victim_prove_alive(&command.victim);
	run_until(procsnap_is_clean(command.victim.pid), RUN_MS);
	victim_prove_alive(&command.victim);
	victim_send(&command.victim, "stop");
	ck_assert_int_eq(victim_wait(&command.victim, RUN_MS), 0);
	run_deinit(&run);
	command_deinit(&command);
}

/* --- signals --- */

/* A shell script that prints "ready" when its traps are set. */
#define SCRIPT(traps) traps " echo ready $$; while :; do sleep 0.01; done"

HT_TEST(signals_are_passed_on)
{
	static const int passed[] = {SIGTERM, SIGHUP, SIGINT};
	static const int statuses[] = {9, 10, 11};
	for (size_t i = 0; i < HT_ARRAY_SIZE(passed); i++) {
		struct command command;
		struct run run;
		start_command(&run, &command,
			(const char *[]){"-q", "--", "sh", "-c",
				SCRIPT("trap 'exit 9' TERM; trap 'exit 10' HUP; trap 'exit 11' "
				       "INT;"),
				NULL});
		kill(run.pid, passed[i]);
		ck_assert_int_eq(run_wait(&run, RUN_MS), statuses[i]);
		run_deinit(&run);
		command_deinit(&command);
	}
}

HT_TEST(quit_is_not_heaptaps)
{
	struct command command;
	struct run run;
	start_command(&run, &command,
		(const char *[]){"-q", "--", "sh", "-c", SCRIPT("trap 'exit 9' TERM;"), NULL});
	kill(run.pid, SIGQUIT);
	/* When SIGTERM has arrived, so has SIGQUIT. */
	kill(run.pid, SIGTERM);
	ck_assert_int_eq(run_wait(&run, RUN_MS), 9);
	run_deinit(&run);
	command_deinit(&command);
}

HT_TEST(stopped_without_a_terminal)
{
	struct command command;
	struct run run;
	start_command(&run, &command,
		(const char *[]){
			"-q", "--", "sh", "-c", "echo ready $$; kill -STOP $$; exit 5", NULL});
	run_until(is_in_state(command.victim.pid, 'T'), RUN_MS);
	ck_assert(!run_has_ended(&run));
	kill(command.victim.pid, SIGCONT);
	ck_assert_int_eq(run_wait(&run, RUN_MS), 5);
	run_deinit(&run);
	command_deinit(&command);
}

/* --- a terminal --- */

struct terminal {
	pid_t pid; /* heaptap: the leader of its session */
	int fd;
	char text[8192];
	size_t used;
};

static void terminal_start(struct terminal *terminal, const char *const command[4])
{
	struct words all = words_of(
		(const char *[]){"-q", "--", command[0], command[1], command[2], command[3]});
	*terminal = (struct terminal){0};
	terminal->pid = forkpty(&terminal->fd, NULL, NULL, NULL);
	if (terminal->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execv(all.argv[0], (char **)all.argv);
		_exit(127);
	}
	ck_assert_int_gt(terminal->pid, 0);
	fcntl(terminal->fd, F_SETFL, O_NONBLOCK);
}

static bool terminal_shows(struct terminal *terminal, const char *text)
{
	ssize_t got = read(terminal->fd, terminal->text + terminal->used,
		sizeof(terminal->text) - 1 - terminal->used);
	terminal->used += got > 0 ? (size_t)got : 0;
	return strstr(terminal->text, text) != NULL;
}

static int terminal_wait(struct terminal *terminal)
{
	int status = -1;
	run_until((terminal_shows(terminal, "\1"), waitpid(terminal->pid, &status, WNOHANG) != 0),
		RUN_MS);
	close(terminal->fd);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

HT_TEST(control_c)
{
	struct terminal terminal;
	/* The terminal sends SIGINT to both: the command must get it once, and not again from
	 * heaptap. */
	terminal_start(&terminal, (const char *[4]){run_built("tests/targets/early"), "count"});
	run_until(terminal_shows(&terminal, "ready"), RUN_MS);
	ck_assert_int_eq(write(terminal.fd, "\x03", 1), 1);
	run_until(terminal_shows(&terminal, "interrupt"), RUN_MS);
	kill(terminal.pid, SIGTERM);
	ck_assert_int_eq(terminal_wait(&terminal), 1);
	terminal_start(&terminal, (const char *[4]){"sh", "-c", SCRIPT("")});
	run_until(terminal_shows(&terminal, "ready"), RUN_MS);
	ck_assert_int_eq(write(terminal.fd, "\x03", 1), 1);
	ck_assert_int_eq(terminal_wait(&terminal), 128 + SIGINT);
}

HT_TEST(reads_from_the_terminal)
{
	struct terminal terminal;
	terminal_start(&terminal,
		(const char *[4]){"sh", "-c", "echo ready; read word; echo got $word; exit 8"});
	run_until(terminal_shows(&terminal, "ready"), RUN_MS);
	ck_assert_int_eq(write(terminal.fd, "bread\n", 6), 6);
	run_until(terminal_shows(&terminal, "got bread"), RUN_MS);
	ck_assert_int_eq(terminal_wait(&terminal), 8);
}

/* The shell that waits for heaptap sees it stop, and continues heaptap alone. */
HT_TEST(stopped_in_a_terminal)
{
	struct terminal terminal;
	int status;
	terminal_start(&terminal,
		(const char *[4]){"sh", "-c", "echo ready; kill -STOP $$; echo on; exit 6"});
	run_until((terminal_shows(&terminal, "ready"),
			  waitpid(terminal.pid, &status, WNOHANG | WUNTRACED) == terminal.pid),
		RUN_MS);
	ck_assert(WIFSTOPPED(status));
	kill(terminal.pid, SIGCONT);
	run_until(terminal_shows(&terminal, "on"), RUN_MS);
	ck_assert_int_eq(terminal_wait(&terminal), 6);
}

/* --- pipes --- */

HT_TEST(pipes_end_with_the_commands_use)
{
	struct command command;
	struct run run;
	char byte;
	/* The command closes both pipes, and goes on. */
	start_command(&run, &command,
		(const char *[]){"-q", "--", "sh", "-c",
			"echo ready $$; exec <&- >&-; while :; do sleep 0.01; done", NULL});
	fcntl(command.victim.out_fd, F_SETFL, O_NONBLOCK);
	fcntl(command.victim.in_fd, F_SETFL, O_NONBLOCK);
	signal(SIGPIPE, SIG_IGN);
	run_until(read(command.victim.out_fd, &byte, 1) == 0, RUN_MS);
	run_until(write(command.victim.in_fd, "x", 1) < 0 && errno == EPIPE, RUN_MS);
	ck_assert(!run_has_ended(&run));
	kill(run.pid, SIGTERM);
	ck_assert_int_eq(run_wait(&run, RUN_MS), 128 + SIGTERM);
	run_deinit(&run);
	command_deinit(&command);
}

/* --- what it says --- */

HT_TEST(becomes_another_program)
{
	struct command command;
	struct run run;
	start_command(&run, &command,
		(const char *[]){"--", "env", run_built("tests/targets/busy"), "-t", "1", NULL});
	victim_prove_alive(&command.victim);
	/* The capture is over when the trace has its final name. */
	run_until(access(trace_path(), F_OK) == 0, RUN_MS);
	victim_prove_alive(&command.victim);
	victim_send(&command.victim, "stop");
	ck_assert_int_eq(run_wait(&run, RUN_MS), 0);
	ck_assert(has_said(&run, "env became another program"));
	json_t *report = report_load(trace_path());
	json_decref(report);
	run_deinit(&run);
	command_deinit(&command);
}

HT_TEST(as_json)
{
	struct words all = words_of((const char *[]){"--json", "--", "echo", "said", NULL});
	HT_FREED char *out, *err;
	ck_assert_int_eq(run_program(all.argv, RUN_MS, &out, &err), 0);
	ck_assert_str_eq(out, "said\n");
	json_auto_t *object = report_parse(err);
	ck_assert_str_eq(report_text(object, "schema"), "heaptap.attach/1");
	ck_assert_str_eq(report_text(object, "trace"), trace_path());
}

HT_SUITE("integration/run_parent")
