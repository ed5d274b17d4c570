/* SPDX-License-Identifier: Apache-2.0
 *
 * attach -b returns when the capture has begun, or fails as without -b. The background process has
 * no terminal.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/child.h"
#include "tests/support/ht_check.h"
#include "tests/support/report.h"
#include "tests/support/steer.h"
#include "tests/support/tap.h"
#include "tests/support/tmpdir.h"
#include "tests/support/victim.h"

#define LIMIT_MS     20000
#define USAGE	     2
#define REFUSED	     3
#define TARGET_ENDED 5

static struct victim victim;
static char pid[16], *trace;

static void begin(void)
{
	victim_start(&victim, (const char *[]){run_built("tests/targets/stepwise"), NULL});
	snprintf(pid, sizeof(pid), "%d", victim.pid);
	trace = tmpdir_path("background.htap");
}

static void end(void)
{
	victim_prove_alive(&victim);
	victim_stop(&victim);
	free(trace);
}

static pid_t start_capture(void)
{
	HT_FREED char *out, *err;
	int status = run_program((const char *[]){run_built("heaptap"), "attach", "-b", "-p", pid,
					 "-o", trace, "--json", NULL},
		LIMIT_MS, &out, &err);
	ck_assert_msg(status == 0, "%s", err);
	ck_assert_str_eq(err, "");
	json_auto_t *begun = report_parse(out);
	ck_assert_str_eq(report_text(begun, "schema"), "heaptap.background/1");
	ck_assert_uint_eq(report_u64(begun, "pid"), (uint64_t)victim.pid);
	ck_assert_str_eq(report_text(begun, "trace"), trace);
	pid_t heaptap = (pid_t)report_u64(begun, "heaptap_pid");
	return heaptap;
}

static void check_stream(pid_t heaptap, int fd)
{
	char path[64], found[64] = "";
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", heaptap, fd);
	ck_assert_int_gt(readlink(path, found, sizeof(found) - 1), 0);
	ck_assert_str_eq(found, "/dev/null");
}

/* --- begins ---------------------------------------------------------------------------------- */

HT_TEST(the_capture_has_begun_when_the_command_returns)
{
	begin();
	pid_t heaptap = start_capture();
	/* The first allocation after the command is in the trace. */
	free(victim_ask(&victim, "alloc 0 1000 104", LIMIT_MS));
	ck_assert_int_eq(getsid(heaptap), heaptap);
	for (int fd = 0; fd < 3; fd++)
		check_stream(heaptap, fd);
	ck_assert_uint_eq(steer_figure(victim.pid, "heaptap_pid"), (uint64_t)heaptap);
	steer_do("stop", victim.pid, "--wait");
	json_t *report = report_load(trace);
	ck_assert_uint_eq(report_u64(report, "totals.allocations"), 1000);
	json_decref(report);
	end();
}

HT_TEST(words_name_the_trace_and_the_way_to_stop)
{
	char *err, line[128];
	begin();
	ck_assert_int_eq(run_program((const char *[]){run_built("heaptap"), "-b", "-p", pid, "-o",
					     trace, NULL},
				 LIMIT_MS, NULL, &err),
		0);
	snprintf(line, sizeof(line), "recording process %s in the background", pid);
	ck_assert_msg(strstr(err, line), "%s", err);
	ck_assert_msg(strstr(err, trace), "%s", err);
	snprintf(line, sizeof(line), "heaptap stop -p %s --wait", pid);
	ck_assert_msg(strstr(err, line), "%s", err);
	free(err);
	steer_do("stop", victim.pid, "--wait");
	end();
}

/* When the target ends its capture, `stop --wait` of a client returns the capture's status. */
HT_TEST(a_client_gets_the_status_of_the_capture)
{
	struct run stop;
	begin();
	start_capture();
	run_start(&stop, (const char *[]){run_built("heaptap"), "stop", "-p", pid, "--wait", NULL});
	ck_assert_int_eq(run_wait(&stop, LIMIT_MS), 0);
	run_deinit(&stop);
	ck_assert_int_eq(steer("status", victim.pid, NULL, NULL, NULL), REFUSED);
	end();
}

/* --- the terminal ---------------------------------------------------------------------------- */

/* Makes the process the leader of a session whose terminal is the file `context`. When the leader
 * ends, the kernel sends SIGHUP to the processes in the foreground. */
static void take_terminal(void *context)
{
	setsid();
	/* The caller of the tests may have set SIGHUP to ignored. */
	signal(SIGHUP, SIG_DFL);
	int terminal = open(context, O_RDWR);
	if (terminal < 0 || ioctl(terminal, TIOCSCTTY, 0) != 0)
		_exit(99);
	for (int fd = 0; fd < 3; fd++)
		dup2(terminal, fd);
}

HT_TEST(the_terminal_may_hang_up)
{
	struct run run;
	begin();
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	ck_assert(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
	run_start_prepared(&run,
		(const char *[]){
			run_built("heaptap"), "attach", "-b", "-q", "-p", pid, "-o", trace, NULL},
		take_terminal, ptsname(master));
	ck_assert_int_eq(run_wait(&run, LIMIT_MS), 0);
	close(master);
	run_deinit(&run);
	free(victim_ask(&victim, "alloc 0 10 104", LIMIT_MS));
	/* Mark before stop: a capture that ends takes no mark. */
	steer_do("mark", victim.pid, "here");
	steer_do("stop", victim.pid, "--wait");
	end();
}

/* --- fails ----------------------------------------------------------------------------------- */

static int attach(const char *background, char **err)
{
	return run_program((const char *[]){run_built("heaptap"), "attach", "-p", pid, "-o", trace,
				   background, NULL},
		LIMIT_MS, NULL, err);
}

HT_TEST(a_failed_attach_is_as_in_the_foreground)
{
	char *before, *behind;
	begin();
	ck_assert_int_eq(kill(victim.pid, SIGSTOP), 0);
	run_until(child_state(victim.pid) == 'T', LIMIT_MS);
	ck_assert_int_eq(attach(NULL, &before), REFUSED);
	ck_assert_int_eq(attach("-b", &behind), REFUSED);
	ck_assert_str_eq(before, behind);
	ck_assert_int_ne(access(trace, F_OK), 0);
	ck_assert_int_eq(kill(victim.pid, SIGCONT), 0);
	free(before);
	free(behind);
	end();
}

HT_TEST(standard_output_is_refused)
{
	HT_FREED char *err;
	ck_assert_int_eq(run_program((const char *[]){run_built("heaptap"), "attach", "-b", "-p",
					     "1", "-o", "-", NULL},
				 LIMIT_MS, NULL, &err),
		USAGE);
	ck_assert_msg(strstr(err, "in the background has no standard output"), "%s", err);
}

/* --- several processes ------------------------------------------------------------------------ */

static struct victim other;

static void check_one_trace(const char *pattern, pid_t target)
{
	char *path = NULL;
	ck_assert_int_ge(asprintf(&path, "%.*s%d.htap", (int)(strchr(pattern, '%') - pattern),
				 pattern, target),
		0);
	json_t *report = report_load(path);
	ck_assert_uint_eq(report_u64(report, "totals.allocations"), 5);
	json_decref(report);
	ck_assert_int_eq(unlink(path), 0);
	free(path);
}

static int record_both(struct run *run, int signal_target)
{
	char second[16];
	HT_FREED char *pattern = tmpdir_path("%p.htap");
	snprintf(second, sizeof(second), "%d", other.pid);
	run_start(run, (const char *[]){run_built("heaptap"), "attach", "-q", "-p", pid, "-p",
			       second, "-o", pattern, NULL});
	run_until(tap_is_recording(victim.pid) && tap_is_recording(other.pid), LIMIT_MS);
	free(victim_ask(&victim, "alloc 0 5 104", LIMIT_MS));
	free(victim_ask(&other, "alloc 0 5 104", LIMIT_MS));
	if (signal_target)
		victim_stop(&other);
	ck_assert_int_eq(kill(run->pid, SIGTERM), 0);
	int status = run_wait(run, LIMIT_MS);
	check_one_trace(pattern, victim.pid);
	check_one_trace(pattern, other.pid);
	run_deinit(run);
	return status;
}

HT_TEST(several_processes)
{
	struct run run;
	begin();
	victim_start(&other, (const char *[]){run_built("tests/targets/stepwise"), NULL});
	ck_assert_int_eq(record_both(&run, 0), 0);
	free(victim_ask(&other, "free 0 5", LIMIT_MS));
	free(victim_ask(&victim, "free 0 5", LIMIT_MS));
	/* One target ends by itself, and the exit status says so. */
	ck_assert_int_eq(record_both(&run, 1), TARGET_ENDED);
	end();
}

/* --- systemd --------------------------------------------------------------------------------- */

static void name_journal(void *context)
{
	struct stat stat;
	char stream[64];
	(void)context;
	fstat(STDERR_FILENO, &stat);
	snprintf(stream, sizeof(stream), "%lu:%lu", (unsigned long)stat.st_dev,
		(unsigned long)stat.st_ino);
	setenv("JOURNAL_STREAM", stream, 1);
}

HT_TEST(messages_in_the_journal_have_a_level)
{
	const char *const argv[] = {run_built("heaptap"), "attach", "-p", "x", NULL};
	struct run run;
	char *err;
	run_start_prepared(&run, argv, name_journal, NULL);
	ck_assert_int_eq(run_wait(&run, LIMIT_MS), USAGE);
	err = run_err(&run);
	ck_assert_msg(strncmp(err, "<4>heaptap: ", 12) == 0, "%s", err);
	free(err);
	run_deinit(&run);
	ck_assert_int_eq(run_program(argv, LIMIT_MS, NULL, &err), USAGE);
	ck_assert_msg(strncmp(err, "heaptap: ", 9) == 0, "%s", err);
	free(err);
}

HT_TEST(systemd_accepts_the_units)
{
	char *command = NULL, *out, *err, *directory = tmpdir_path("units");
	char *program = realpath(run_built("heaptap"), NULL);
	ck_assert_ptr_nonnull(program);
	if (access("/usr/bin/systemd-analyze", X_OK) != 0) {
		printf("skipped: systemd_accepts_the_units: there is no systemd-analyze\n");
		free(program);
		free(directory);
		return;
	}
	/* The unit names the installed heaptap; replace it with the one under test, so that
	 * systemd-analyze finds it. */
	ck_assert_int_ge(
		asprintf(&command,
			"mkdir '%s' && cp scripts/systemd/heaptap@.* '%s' && cd '%s' && sed -i "
			"'s|^ExecStart=/usr/bin/heaptap|ExecStart=%s|' heaptap@.service && "
			"systemd-analyze verify --man=no ./heaptap@.service ./heaptap@.timer 2>&1",
			directory, directory, directory, program),
		0);
	int status = run_program((const char *[]){"sh", "-c", command, NULL}, LIMIT_MS, &out, &err);
	ck_assert_msg(status == 0 && !*out, "%d: %s%s", status, out, err);
	free(out);
	free(err);
	free(command);
	free(program);
	free(directory);
}

HT_SUITE("integration/background")
