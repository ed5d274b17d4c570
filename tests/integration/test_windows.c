/* SPDX-License-Identifier: Apache-2.0
 *
 * Series of windows: what starts each, what ends it, and which traces stay.
 */
#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/report.h"
#include "tests/support/run.h"
#include "tests/support/tap.h"
#include "tests/support/tmpdir.h"
#include "tests/support/victim.h"

#define RUN_MS	  60000
#define ANSWER_MS 10000
#define WORDS_MAX 32

struct scene {
	struct victim victim;
	struct run run;
	char pid[16];
	char *trace; /* the path given to -o */
};

static void scene_start_with(struct scene *scene, const char *const argv[])
{
	victim_start(&scene->victim, argv);
	snprintf(scene->pid, sizeof(scene->pid), "%d", scene->victim.pid);
	scene->trace = tmpdir_path("w.htap");
}

static void scene_start(struct scene *scene)
{
	scene_start_with(scene, (const char *[]){run_built("tests/targets/resident"), NULL});
}

/* A program that allocates when the test asks it to. */
static void scene_start_service(struct scene *scene)
{
	scene_start_with(
		scene, (const char *[]){run_built("tests/targets/service"), "1", "50", NULL});
}

/* Starts heaptap attach with `words`. */
static void start(struct scene *scene, const char *const words[])
{
	const char *argv[WORDS_MAX] = {
		run_built("heaptap"), "attach", "-p", scene->pid, "-f", "-o", scene->trace};
	for (size_t at = 7; *words && at < WORDS_MAX - 1; words++)
		argv[at++] = *words;
	run_start(&scene->run, argv);
}

static void take(struct scene *scene, const char *command)
{
	free(victim_ask(&scene->victim, command, ANSWER_MS));
}

/* heaptap must exit with `status`, have printed all of `words`, and leave nothing in the target. */
static void check_end(struct scene *scene, int status, const char *const words[])
{
	const int got = run_wait(&scene->run, RUN_MS);
	char *err = run_err(&scene->run);
	ck_assert_msg(got == status, "exit status %d: %s", got, err);
	for (; *words; words++)
		ck_assert_msg(strstr(err, *words) != NULL, "no \"%s\" in: %s", *words, err);
	free(err);
	run_deinit(&scene->run);
}

static char *numbered(const struct scene *scene, unsigned number)
{
	static char path[4096];
	snprintf(path, sizeof(path), "%.*s.%03u.htap", (int)strlen(scene->trace) - 5, scene->trace,
		number);
	return path;
}

static bool is_there(const struct scene *scene, unsigned number)
{
	return access(numbered(scene, number), F_OK) == 0;
}

/* The trace must say that its window ended for `reason`. */
static void check_reason(const char *trace, const char *reason)
{
	json_auto_t *report = report_load(trace);
	ck_assert_str_eq(json_string_value(report_at(report, "capture.ended")), reason);
}

static bool is_tapped(const struct scene *scene)
{
	return tap_is_recording(scene->victim.pid);
}

/* A series of three windows: heaptap runs a command on each trace, and deletes the first trace.
 * Between two windows the target is clean. */
HT_TEST(windows_at_even_times)
{
	struct scene scene;
	char *seen = tmpdir_path("seen"), command[4200];
	scene_start(&scene);
	FILE *script = fopen(tmpdir_path("note"), "w");
	fprintf(script, "#!/bin/sh\necho \"$1 $2\" >>%s\n", seen);
	fclose(script);
	ck_assert_int_eq(chmod(tmpdir_path("note"), 0700), 0);
	snprintf(command, sizeof(command), "%s  window", tmpdir_path("note"));
	struct procsnap *before = procsnap_take(scene.victim.pid, 0);
	start(&scene, (const char *[]){"-d", "0.5s", "--every", "4s", "--count", "3", "--keep", "2",
			      "--exec", command, NULL});
	for (unsigned number = 1; number <= 2; number++) {
		run_until(is_there(&scene, number) && !is_tapped(&scene), RUN_MS);
		take(&scene, "figures");
	}
	check_end(&scene, 0,
		(const char *[]){
			"window 2 begins in ", "window 3 begins in ", "process unchanged", NULL});
	procsnap_verify(before, scene.victim.pid);
	ck_assert(!is_there(&scene, 1));
	for (unsigned number = 2; number <= 3; number++)
		check_reason(numbered(&scene, number), "duration");
	char *text = NULL;
	size_t bytes = 0;
	FILE *notes = fopen(seen, "r");
	ck_assert_ptr_nonnull(notes);
	for (unsigned number = 1; number <= 3; number++) {
		char line[4200];
		snprintf(line, sizeof(line), "window %s\n", numbered(&scene, number));
		ck_assert_int_gt(getline(&text, &bytes, notes), 0);
		ck_assert_str_eq(text, line);
	}
	fclose(notes);
	free(text);
	victim_prove_alive(&scene.victim);
	victim_stop(&scene.victim);
}

/* heaptap does not touch the target before the trigger. */
HT_TEST(a_trigger_waits_for_memory)
{
	struct scene scene;
	scene_start(&scene);
	start(&scene, (const char *[]){"--trigger-rss", "60M", "-d", "0.3s", NULL});
	take(&scene, "anonymous 20");
	run_until(strstr(run_err(&scene.run), "until its RSS is 60.0 MiB") != NULL, RUN_MS);
	ck_assert(!is_tapped(&scene) && !run_has_ended(&scene.run));
	ck_assert_int_ne(access(scene.trace, F_OK), 0);
	take(&scene, "anonymous 50");
	check_end(&scene, 0, (const char *[]){"process unchanged", NULL});
	check_reason(scene.trace, "duration");
	start(&scene, (const char *[]){"--trigger-growth", "30M", "-d", "0.3s", NULL});
	run_until(strstr(run_err(&scene.run), "has grown by 30.0 MiB") != NULL, RUN_MS);
	take(&scene, "anonymous 40");
	check_end(&scene, 0, (const char *[]){"process unchanged", NULL});
	victim_stop(&scene.victim);
}

HT_TEST(memory_and_size_end_a_window)
{
	struct scene scene;
	scene_start(&scene);
	start(&scene, (const char *[]){"--until-growth", "30M", NULL});
	run_until(is_tapped(&scene), RUN_MS);
	take(&scene, "anonymous 40");
	check_end(&scene, 0,
		(const char *[]){
			"recording ended: the process's RSS grew by --until-growth", NULL});
	check_reason(scene.trace, "growth");
	start(&scene, (const char *[]){"--until-rss", "100M", NULL});
	run_until(is_tapped(&scene), RUN_MS);
	take(&scene, "anonymous 80");
	check_end(&scene, 0,
		(const char *[]){"recording ended: the process's RSS reached --until-rss", NULL});
	check_reason(scene.trace, "rss");
	victim_stop(&scene.victim);
	scene_start_service(&scene);
	start(&scene, (const char *[]){"--max-size", "16K", NULL});
	run_until(is_tapped(&scene), RUN_MS);
	while (!run_has_ended(&scene.run))
		take(&scene, "run 100");
	check_end(
		&scene, 0, (const char *[]){"recording ended: the trace reached --max-size", NULL});
	check_reason(scene.trace, "size");
	victim_stop(&scene.victim);
}

/* A new window begins each time, and the last two traces stay. */
HT_TEST(full_traces_rotate)
{
	struct scene scene;
	unsigned number = 1;
	scene_start_service(&scene);
	start(&scene, (const char *[]){"--max-size", "16K", "--on-full=rotate", NULL});
	for (; number <= 3; number++) {
		run_until(is_tapped(&scene), RUN_MS);
		while (!is_there(&scene, number + 1))
			take(&scene, "run 100");
	}
	run_until(is_tapped(&scene), RUN_MS);
	kill(scene.run.pid, SIGINT);
	check_end(
		&scene, 0, (const char *[]){"recording ended: the trace reached --max-size", NULL});
	while (is_there(&scene, number + 1))
		number++;
	ck_assert(is_there(&scene, number) && is_there(&scene, number - 1));
	for (unsigned old = 1; old < number - 1; old++)
		ck_assert(!is_there(&scene, old));
	check_reason(numbered(&scene, number - 1), "size");
	victim_stop(&scene.victim);
}

HT_TEST(a_command_bounds_the_window)
{
	struct scene scene;
	scene_start(&scene);
	start(&scene, (const char *[]){"--", "sh", "-c", "sleep 0.5; echo it ran", NULL});
	ck_assert_int_eq(run_wait(&scene.run, RUN_MS), 0);
	ck_assert_str_eq(run_out(&scene.run), "it ran\n");
	run_deinit(&scene.run);
	check_reason(scene.trace, "command");
	start(&scene, (const char *[]){"--", "/no/such/command", NULL});
	check_end(&scene, 127, (const char *[]){"/no/such/command", NULL});
	start(&scene, (const char *[]){"--", "/etc/passwd", NULL});
	check_end(&scene, 126, (const char *[]){"/etc/passwd", NULL});
	victim_stop(&scene.victim);
}

/* Ctrl-C while heaptap waits, before the first window and after one. */
HT_TEST(a_signal_ends_the_wait)
{
	struct scene scene;
	scene_start(&scene);
	start(&scene, (const char *[]){"--delay", "1h", NULL});
	run_until(strstr(run_err(&scene.run), "window 1 begins in") != NULL, RUN_MS);
	kill(scene.run.pid, SIGINT);
	check_end(&scene, 0, (const char *[]){"nothing was recorded", NULL});
	ck_assert_int_ne(access(scene.trace, F_OK), 0);
	start(&scene, (const char *[]){"-d", "0.2s", "--every", "1h", NULL});
	run_until(strstr(run_err(&scene.run), "window 2 begins in") != NULL, RUN_MS);
	kill(scene.run.pid, SIGTERM);
	check_end(&scene, 0,
		(const char *[]){"process unchanged", "the series ends after window 1\n", NULL});
	check_reason(numbered(&scene, 1), "duration");
	victim_stop(&scene.victim);
}

HT_TEST(the_process_ends_between_windows)
{
	struct scene scene;
	scene_start(&scene);
	start(&scene, (const char *[]){"-d", "0.2s", "--every", "1h", NULL});
	run_until(strstr(run_err(&scene.run), "window 2 begins in") != NULL, RUN_MS);
	victim_kill(&scene.victim);
	check_end(&scene, 5,
		(const char *[]){"ended while heaptap waited; 1 trace was recorded", NULL});
	check_reason(numbered(&scene, 1), "duration");
}

/* If another capture runs when a window is due, that window is skipped, and the series goes on. */
HT_TEST(an_exec_ends_the_window_and_is_named)
{
	struct scene scene;
	scene_start_with(&scene, (const char *[]){run_built("tests/targets/actor"), NULL});
	start(&scene, (const char *[]){"-d", "1h", NULL});
	run_until(is_tapped(&scene), RUN_MS);
	victim_send(&scene.victim, "exec");
	free(victim_line(&scene.victim, ANSWER_MS));
	check_end(&scene, 5,
		(const char *[]){"the process became another program: nothing had to be undone",
			"trace: ", NULL});
	victim_stop(&scene.victim);
}

HT_TEST(another_capture_runs)
{
	struct scene scene;
	struct run other;
	scene_start(&scene);
	run_start(&other, (const char *[]){run_built("heaptap"), "attach", "-q", "-p", scene.pid,
				  "-f", "-o", tmpdir_path("other.htap"), NULL});
	run_until(is_tapped(&scene), RUN_MS);
	start(&scene, (const char *[]){"-d", "0.2s", "--every", "0.5s", "--count", "4", NULL});
	run_until(strstr(run_err(&scene.run), "is already recorded") != NULL, RUN_MS);
	kill(other.pid, SIGINT);
	ck_assert_int_eq(run_wait(&other, RUN_MS), 0);
	run_deinit(&other);
	check_end(&scene, 3, (const char *[]){"process unchanged", NULL});
	ck_assert(!is_there(&scene, 1));
	check_reason(numbered(&scene, 4), "duration");
	victim_stop(&scene.victim);
}

/* The disk is full in the third window: the two traces before are whole, and the series ends. */
HT_TEST(a_full_disk_ends_the_series)
{
	struct scene scene;
	char *directory = tmpdir_path("disk"), path[4200];
	if (geteuid() != 0) {
		printf("skipped: windows: needs root to mount a small file system\n");
		return;
	}
	scene_start_service(&scene);
	ck_assert_int_eq(mkdir(directory, 0700), 0);
	ck_assert_int_eq(unshare(CLONE_NEWNS), 0);
	ck_assert_int_eq(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	ck_assert_int_eq(mount("small", directory, "tmpfs", 0, "size=100m"), 0);
	snprintf(path, sizeof(path), "%s/w.htap", directory);
	scene.trace = strdup(path);
	start(&scene, (const char *[]){"-d", "0.5s", "--every", "1.5s", NULL});
	run_until(is_there(&scene, 2) && !is_tapped(&scene), RUN_MS);
	run_until(strstr(run_err(&scene.run), ".002.htap (") != NULL, RUN_MS);
	snprintf(path, sizeof(path), "%s/full", directory);
	int fd = open(path, O_CREAT | O_WRONLY, 0600);
	ck_assert_int_eq(posix_fallocate(fd, 0, 60 << 20), 0);
	close(fd);
	while (!run_has_ended(&scene.run))
		take(&scene, "run 100");
	check_end(&scene, 7, (const char *[]){"process unchanged", "MiB free; make room", NULL});
	for (unsigned number = 1; number <= 2; number++)
		check_reason(numbered(&scene, number), "duration");
	ck_assert(!is_there(&scene, 4));
	victim_prove_alive(&scene.victim);
	victim_stop(&scene.victim);
	ck_assert_int_eq(umount2(directory, MNT_DETACH), 0);
}

/* --- a terminal --- */

static void use_terminal(void *context)
{
	const int *terminal = context;
	dup2(*terminal, STDOUT_FILENO);
	dup2(*terminal, STDERR_FILENO);
}

/* Reads the terminal's output to its end. Static buffer. */
static char *read_terminal(int fd)
{
	static char text[65536];
	size_t length = 0;
	ssize_t got;
	while (length < sizeof(text) - 1 &&
		(got = read(fd, text + length, sizeof(text) - 1 - length)) > 0)
		length += (size_t)got;
	text[length] = '\0';
	return text;
}

/* In a terminal attach shows a progress line, then the report's first screen, the result of the
 * comparison, and the page's path. */
HT_TEST(one_command_from_process_to_answer)
{
	static const char *const parts[] = {"\r1 s of 2 s, RSS ", " blocks, oldest ",
		"process unchanged", "trace: ", "page:  "};
	const struct winsize size = {.ws_row = 24, .ws_col = 80};
	struct scene scene;
	int ours, terminal;
	scene_start_service(&scene);
	ck_assert_int_eq(openpty(&ours, &terminal, NULL, NULL, &size), 0);
	run_start_prepared(&scene.run,
		(const char *[]){run_built("heaptap"), "-p", scene.pid, "-f", "-d", "2s", "--html",
			"-o", scene.trace, NULL},
		use_terminal, &terminal);
	close(terminal);
	run_until(is_tapped(&scene), RUN_MS);
	while (!run_has_ended(&scene.run))
		take(&scene, "run 50");
	ck_assert_int_eq(run_wait(&scene.run, RUN_MS), 0);
	const char *at = read_terminal(ours);
	for (size_t i = 0; i < HT_ARRAY_SIZE(parts); i++) {
		const char *next = strstr(at, parts[i]);
		ck_assert_msg(next != NULL, "no \"%s\" in %s", parts[i], at);
		at = next;
	}
	close(ours);
	run_deinit(&scene.run);
	victim_stop(&scene.victim);
}

HT_SUITE("integration/windows")
