/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding processes without their PID: by name, by systemd unit, and before they run.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/ctlgroup.h"
#include "tests/support/ht_check.h"
#include "tests/support/report.h"
#include "tests/support/steer.h"
#include "tests/support/tap.h"
#include "tests/support/tmpdir.h"
#include "tests/support/victim.h"

#define LIMIT_MS 20000
#define USAGE	 2
#define REFUSED	 3

static struct victim victim, other;
static struct tap tap;
static char *program, name[32];

/* A program whose name no other process on this machine has. */
static void make_program(void)
{
	snprintf(name, sizeof(name), "sought-%d", getpid());
	program = tmpdir_path(name);
	ck_assert_int_eq(run_program((const char *[]){"cp", run_built("tests/targets/stepwise"),
					     program, NULL},
				 LIMIT_MS, NULL, NULL),
		0);
}

static void begin(struct victim *ret)
{
	victim_start(ret, (const char *[]){program, NULL});
}

static int ask(const char *command, const char *way, const char *value, char **out, char **err)
{
	return run_program((const char *[]){run_built("heaptap"), command, way, value, NULL},
		LIMIT_MS, out, err);
}

/* --- names ----------------------------------------------------------------------------------- */

HT_TEST(the_only_process_of_a_name)
{
	char *out, *err, line[64];
	make_program();
	ck_assert_int_eq(ask("doctor", "-n", name, NULL, &err), REFUSED);
	ck_assert_ptr_nonnull(strstr(err, "no process named"));
	free(err);
	begin(&victim);
	ck_assert_int_eq(ask("doctor", "-n", name, &out, NULL), 0);
	snprintf(line, sizeof(line), "%d", victim.pid);
	ck_assert_msg(strstr(out, line), "%s", out);
	free(out);
	victim_stop(&victim);
}

/* heaptap must not print escape sequences from a process's name. */
HT_TEST(of_several_a_list)
{
	char *err, line[64];
	make_program();
	begin(&victim);
	victim_start(&other, (const char *[]){program, "\033[2J", NULL});
	ck_assert_int_eq(ask("attach", "-n", name, NULL, &err), REFUSED);
	for (int i = 0; i < 2; i++) {
		snprintf(line, sizeof(line), "\n%8d root ", i ? other.pid : victim.pid);
		ck_assert_msg(getuid() || strstr(err, line), "%s", err);
	}
	ck_assert_ptr_nonnull(strstr(err, "2 processes named sought-"));
	ck_assert_ptr_nonnull(strstr(err, "choose one with -p PID"));
	ck_assert_ptr_null(strchr(err, '\033'));
	free(err);
	victim_stop(&other);
	victim_stop(&victim);
}

HT_TEST(of_several_the_one_with_a_capture_is_steered)
{
	make_program();
	begin(&victim);
	begin(&other);
	tap_start(&tap, other.pid, NULL);
	tap_wait_on(&tap, name);
	ck_assert_int_eq(ask("mark", "-n", name, NULL, NULL), USAGE);
	ck_assert_int_eq(ask("stop", "-n", name, NULL, NULL), 0);
	tap_check_clean(tap_wait(&tap, 0));
	victim_stop(&other);
	victim_stop(&victim);
}

HT_TEST(find_prints_the_pid)
{
	char *out, line[64];
	make_program();
	ck_assert_int_eq(ask("find", "-n", name, &out, NULL), REFUSED);
	ck_assert_str_eq(out, "");
	free(out);
	begin(&victim);
	snprintf(line, sizeof(line), "%d\n", victim.pid);
	ck_assert_int_eq(ask("find", "-n", name, &out, NULL), 0);
	ck_assert_str_eq(out, line);
	free(out);
	ck_assert_int_eq(run_program((const char *[]){run_built("heaptap"), "find", "-n", name,
					     "--json", NULL},
				 LIMIT_MS, &out, NULL),
		0);
	json_t *found = report_parse(out);
	ck_assert_str_eq(report_text(found, "schema"), "heaptap.find/1");
	ck_assert_uint_eq(report_u64(found, "pid"), (uint64_t)victim.pid);
	json_decref(found);
	free(out);
	victim_stop(&victim);
}

/* --- top and serve --------------------------------------------------------------------------- */

static int run_top(char **out, char **err)
{
	return run_program((const char *[]){run_built("heaptap"), "top", "--name", name, "-b", "-d",
				   "0.2", "-n", "1", NULL},
		LIMIT_MS, out, err);
}

HT_TEST(top_takes_a_name)
{
	char *out, *err, line[64];
	make_program();
	ck_assert_int_eq(run_top(NULL, &err), REFUSED);
	ck_assert_int_eq(strncmp(err, "heaptap: no process named sought-", 33), 0);
	free(err);
	begin(&victim);
	snprintf(line, sizeof(line), " %d ", victim.pid);
	ck_assert_int_eq(run_top(&out, NULL), 0);
	ck_assert_msg(strstr(out, line), "%s", out);
	free(out);
	begin(&other);
	ck_assert_int_eq(run_top(NULL, &err), REFUSED);
	ck_assert_ptr_nonnull(strstr(err, "RSS COMMAND\n"));
	ck_assert_ptr_nonnull(strstr(err, "\nheaptap: 2 processes named sought-"));
	free(err);
	ck_assert_int_eq(ask("top", "-b", "--name=x", NULL, NULL), REFUSED);
	ck_assert_int_eq(run_program((const char *[]){run_built("heaptap"), "top", "-p", "1",
					     "--name", name, NULL},
				 LIMIT_MS, NULL, NULL),
		USAGE);
	victim_stop(&other);
	victim_stop(&victim);
}

static bool is_recorded(pid_t pid)
{
	return steer("status", pid, "-q", NULL, NULL) == 0;
}

HT_TEST(serve_takes_a_name)
{
	struct run run;
	make_program();
	begin(&victim);
	run_start(&run, (const char *[]){run_built("heaptap"), "serve", "--name", name, NULL});
	run_until(is_recorded(victim.pid) || run_has_ended(&run), LIMIT_MS);
	char *err = run_err(&run);
	const bool is_built = !strstr(err, "serve is not in this build");
	free(err);
	if (is_built) {
		run_until(strlen(run_out(&run)) > 0, LIMIT_MS);
		kill(run.pid, SIGINT);
		ck_assert_int_eq(run_wait(&run, LIMIT_MS), 0);
		ck_assert(!is_recorded(victim.pid));
	} else {
		printf("skipped: serve takes a name: this build has no server\n");
	}
	run_deinit(&run);
	victim_stop(&victim);
}

/* --- units ----------------------------------------------------------------------------------- */

HT_TEST(the_process_of_a_unit)
{
	static const struct ctlgroup_kind kinds[] = {{"/sys/fs/cgroup", "cgroup.max.depth", "9"},
		{"/sys/fs/cgroup/unified", "cgroup.max.depth", "9"},
		{"/sys/fs/cgroup/systemd", "notify_on_release", "0"},
		{"/sys/fs/cgroup/pids", "notify_on_release", "0"}};
	struct ctlgroup group, unit;
	char *out, line[64];
	if (!ctlgroup_make(&group, kinds, HT_ARRAY_SIZE(kinds)))
		return;
	make_program();
	begin(&victim);
	unit = group;
	snprintf(unit.path + strlen(unit.path), sizeof(unit.path) - strlen(unit.path),
		"/%s.service", name);
	ck_assert_int_eq(mkdir(unit.path, 0755), 0);
	ctlgroup_move(&unit, victim.pid);
	ck_assert_int_eq(ask("doctor", "-u", name, &out, NULL), 0);
	snprintf(line, sizeof(line), "%d", victim.pid);
	ck_assert_msg(strstr(out, line), "%s", out);
	free(out);
	victim_stop(&victim);
	ctlgroup_remove(&unit);
	ctlgroup_remove(&group);
}

/* --- waiting --------------------------------------------------------------------------------- */

static void wait_for(struct run *run, char *trace)
{
	run_start(run, (const char *[]){run_built("heaptap"), "attach", "--wait-for", name, "-o",
			       trace, "--json", NULL});
	/* Long enough for heaptap to look for the process at least twice. */
	for (int i = 0; i < 30; i++)
		run_pause();
}

HT_TEST(a_process_that_comes_is_recorded)
{
	make_program();
	HT_FREED char *trace = tmpdir_path("awaited.htap");
	wait_for(&tap.run, trace);
	snprintf(tap.trace, sizeof(tap.trace), "%s", trace);
	begin(&victim);
	tap.target = victim.pid;
	tap_wait_on(&tap, name);
	tap_check_clean(tap_stop(&tap, 0));
	victim_stop(&victim);
}

HT_TEST(a_signal_ends_the_waiting)
{
	struct run run;
	make_program();
	HT_FREED char *trace = tmpdir_path("none.htap");
	wait_for(&run, trace);
	ck_assert(!run_has_ended(&run));
	ck_assert_int_eq(kill(run.pid, SIGINT), 0);
	ck_assert_int_eq(run_wait(&run, LIMIT_MS), 128 + SIGINT);
	ck_assert_int_ne(access(trace, F_OK), 0);
	run_deinit(&run);
}

HT_SUITE("integration/seek")
