/* SPDX-License-Identifier: Apache-2.0
 *
 * Lasting failures: from some call on, every call of one kind fails, as if descriptors, memory,
 * processes or rights had run out, in attach, capture or detach. heaptap ends with an exit code of
 * the man page's table, the target is unharmed, and after the shortage the guardian or `heaptap
 * recover` removes every leftover.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/ctlgroup.h"
#include "tests/support/ht_check.h"
#include "tests/support/ordeal.h"
#include "tests/support/report.h"
#include "tests/support/tap.h"
#include "tests/support/tmpdir.h"

#define NOBODY	   65534
#define POINTS	   4
#define HEAPTAP_MS 60000
#define DONE_MS	   120000 /* the guardian tries again every few seconds */

enum { DONE, INTERNAL, REFUSED = 3, PERMISSION, DETACH_INCOMPLETE = 6, TRACE_INCOMPLETE };

/* --- every call of a kind ------------------------------------------------------------------------
 */

static const struct ordeal_target computing = {"computing", {"canaries"}, NULL, 0, false};
static const struct ordeal_target threaded = {"threaded", {"busy", "-t", "4"}, NULL, 0, false};

static bool is_documented(int status)
{
	return status == DONE || status == INTERNAL || status == REFUSED || status == PERMISSION ||
	       status == DETACH_INCOMPLETE || status == TRACE_INCOMPLETE;
}

/* Does the message of a failed attach name a leftover, certain or possible, with the command that
 * removes it? */
static bool is_remedy_named(int status, const char *err)
{
	bool attached = ordeal_is_capture(err);
	bool mapped = strstr(err, ", stays in process ") || strstr(err, ", may stay in process ");
	return status != DETACH_INCOMPLETE || attached ||
	       (mapped && strstr(err, "`heaptap recover -p ")) ||
	       strstr(err, "`heaptap cleanup`") || strstr(err, "`heaptap verify -p ") ||
	       strstr(err, "its guardian has not ended");
}

/* All processes of heaptap have ended after a failed detach: only recover can remove the
 * leftovers. */
static bool fail_on(struct ordeal *o, const struct sweep_plan *plan)
{
	struct sweep sweep;
	char where[200];
	sweep_start(&sweep, o->argv, plan);
	int status = sweep_wait(&sweep, ORDEAL_HEAPTAP_MS);
	HT_FREED char *err = run_err(&sweep.run);
	snprintf(where, sizeof(where), "%s, %s", o->target->name, sweep_text(&sweep));
	if (getenv("VERBOSE"))
		fprintf(stderr, "%3d %s: %.300s\n", status, where, err);
	ck_assert_msg(is_documented(status), "%s: exit code %d: %s", where, status, err);
	ck_assert_msg(!strstr(err, "level ") || !strstr(err, "attaching: "), "%s: %s", where, err);
	ck_assert_msg(is_remedy_named(status, err), "%s: %s", where, err);
	victim_prove_alive(&o->victim);
	ordeal_recover(o, where);
	ordeal_check(o, where);
	ordeal_check_trace(o, status == DONE);
	sweep_deinit(&sweep);
	return sweep.hit;
}

/* Calls fail from main's first call on: the dynamic linker's handling of failures is not tested. */
static void fail_sweep(const struct ordeal_target *target, long number, int error)
{
	struct ordeal ordeal;
	ordeal_init(&ordeal, target);
	ordeal.points = POINTS;
	ordeal_sweep(&ordeal,
		(struct sweep_plan){.action = SWEEP_FAIL_ON,
			.value = error,
			.number = number,
			.from = SYS_rt_sigprocmask},
		fail_on);
	ordeal_deinit(&ordeal);
}

static void fail_sweeps(long number, int error)
{
	fail_sweep(&computing, number, error);
	fail_sweep(&threaded, number, error);
}

HT_TEST(fails_cleanly_without_processes)
{
	fail_sweeps(SYS_clone, EAGAIN);
}

HT_TEST(fails_cleanly_without_descriptors)
{
	fail_sweeps(SYS_openat, EMFILE);
}

HT_TEST(fails_cleanly_without_memory)
{
#ifdef __SANITIZE_ADDRESS__
	printf("skipped: lasting: a sanitizer ends where it gets no memory\n");
	return;
#endif
	fail_sweeps(SYS_mmap, ENOMEM);
}

HT_TEST(fails_cleanly_without_reads)
{
	fail_sweeps(SYS_pread64, EPERM);
}

HT_TEST(fails_cleanly_without_ptrace)
{
	fail_sweeps(SYS_ptrace, EPERM);
}

/* --- a full group, a used-up limit ---------------------------------------------------------------
 */

/* A way to keep heaptap from forking. */
struct shortage {
	void (*begin)(void *context);	     /* runs in heaptap's process before the exec; NULL: no
						shortage at the start */
	void (*come)(const struct tap *tap); /* starts the shortage during the capture */
	void (*go)(const struct tap *tap, pid_t guardian);
};

static void start(struct victim *victim)
{
	victim_start(victim, (const char *[]){run_built("tests/targets/busy"), "-t", "2", NULL});
}

/* `room`: how many processes heaptap may have. heaptap must refuse before it writes into the
 * target. */
static void check_refused(const struct shortage *shortage, unsigned room)
{
	struct victim victim;
	struct run run;
	char pid[16], *trace = tmpdir_path("refused.htap");
	start(&victim);
	struct procsnap *before = procsnap_take(victim.pid, 0);
	snprintf(pid, sizeof(pid), "%d", victim.pid);
	run_start_prepared(&run,
		(const char *[]){
			run_built("heaptap"), "attach", "-p", pid, "-d", "1s", "-o", trace, NULL},
		shortage->begin, &room);
	int status = run_wait(&run, RUN_REFUSAL_MS);
	HT_FREED char *err = run_err(&run);
	if (getenv("VERBOSE"))
		fprintf(stderr, "room for %u: %d: %s", room, status, err);
	ck_assert_msg(status == INTERNAL, "%d: %s", status, err);
	ck_assert_msg(strchr(err, '\n') == strrchr(err, '\n'), "not one line: %s", err);
	ck_assert_msg(strstr(err, "cannot fork") && strstr(err, strerror(EAGAIN)), "%s", err);
	ck_assert(access(trace, F_OK) != 0);
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
	run_deinit(&run);
	free(trace);
}

/* Until the shortage is over the guardian cannot fork either. `recovers`: the guardian is killed,
 * and recover must finish the detach; else the guardian must finish it. */
static void check_detach(const struct shortage *shortage, bool recovers)
{
	struct victim victim;
	struct tap tap;
	char pid[16], *err;
	ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	start(&victim);
	struct procsnap *before = procsnap_take(victim.pid, 0);
	tap_start(&tap, victim.pid, (const char *[]){"--symbolize", "later", NULL});
	tap_wait_on(&tap, "/busy");
	pid_t guardian = tap_guardian(&tap);
	shortage->come(&tap);
	kill(tap.run.pid, SIGINT);
	int status = run_wait(&tap.run, HEAPTAP_MS);
	err = run_err(&tap.run);
	if (getenv("VERBOSE"))
		fprintf(stderr, "%d: %s\n", status, err);
	ck_assert_msg(status == DETACH_INCOMPLETE, "%d: %s", status, err);
	ck_assert_msg(strstr(err, "cannot fork"), "%s", err);
	ck_assert_msg(!strstr(err, "attaching: "), "%s", err);
	free(err);
	victim_prove_alive(&victim);
	if (recovers) {
		kill(guardian, SIGKILL);
		run_until(tap_guardian_is_done(victim.pid), DONE_MS);
		shortage->go(&tap, 0);
		snprintf(pid, sizeof(pid), "%d", victim.pid);
		status = run_program(
			(const char *[]){run_built("heaptap"), "recover", "-p", pid, NULL},
			HEAPTAP_MS, NULL, &err);
		ck_assert_msg(status == DONE, "%d: %s", status, err);
		free(err);
	} else {
		shortage->go(&tap, guardian);
		run_until(tap_guardian_is_done(victim.pid), DONE_MS);
	}
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
	run_deinit(&tap.run);
}

static const struct ctlgroup_kind pids_kinds[] = {
	{"/sys/fs/cgroup/pids", "pids.max", "max"}, {"/sys/fs/cgroup", "pids.max", "max"}};
static struct ctlgroup group;

static bool group_make(void)
{
	return ctlgroup_make(&group, pids_kinds, HT_ARRAY_SIZE(pids_kinds));
}

static void enter_group(void *context)
{
	char text[16];
	snprintf(text, sizeof(text), "%u", *(const unsigned *)context);
	if (!ctlgroup_set(&group, "pids.max", text) || !ctlgroup_set(&group, "cgroup.procs", "0"))
		_exit(126);
}

static void fill_group(const struct tap *tap)
{
	ck_assert(ctlgroup_set(&group, "pids.max", "1"));
	ctlgroup_move(&group, tap_guardian(tap));
	ctlgroup_move(&group, tap->run.pid);
}

static void widen_group(const struct tap *tap, pid_t guardian)
{
	(void)tap;
	(void)guardian;
	ck_assert(ctlgroup_set(&group, "pids.max", "max"));
}

static const struct shortage full_group = {enter_group, fill_group, widen_group};

HT_TEST(group_is_full)
{
	if (!group_make())
		return;
	/* With room for 1, 2 and 3 processes heaptap cannot fork its guardian, its writer, or its
	 * worker. */
	for (unsigned room = 1; room <= 3; room++)
		check_refused(&full_group, room);
	ctlgroup_remove(&group);
}

HT_TEST(group_is_full_at_detach)
{
	if (!group_make())
		return;
	check_detach(&full_group, false);
	check_detach(&full_group, true);
	ctlgroup_remove(&group);
}

/* RLIMIT_NPROC does not limit root. */
static void become_nobody(void)
{
	if (getuid() == 0)
		ck_assert(!setgroups(0, NULL) && !setgid(NOBODY) && !setuid(NOBODY));
	ck_assert_int_eq(prctl(PR_SET_DUMPABLE, 1), 0);
}

static void limit(pid_t pid, rlim_t processes)
{
	struct rlimit limits;
	ck_assert_int_eq(prlimit(pid, RLIMIT_NPROC, NULL, &limits), 0);
	limits.rlim_cur = processes < limits.rlim_max ? processes : limits.rlim_max;
	ck_assert_int_eq(prlimit(pid, RLIMIT_NPROC, &limits, NULL), 0);
}

static void limit_itself(void *context)
{
	(void)context;
	limit(0, 1);
}

static void limit_both(const struct tap *tap)
{
	limit(tap_guardian(tap), 1);
	limit(tap->run.pid, 1);
}

static void limit_no_more(const struct tap *tap, pid_t guardian)
{
	(void)tap;
	if (guardian)
		limit(guardian, RLIM_INFINITY);
}

static const struct shortage used_up = {limit_itself, limit_both, limit_no_more};

HT_TEST(limit_is_used_up)
{
	become_nobody();
	check_refused(&used_up, 0);
}

HT_TEST(limit_is_used_up_at_detach)
{
	/* Only root can use recover here. */
	become_nobody();
	check_detach(&used_up, false);
}

/* --- a right that is lost ---
 */

static void be_nobody(void *context)
{
	(void)context;
	become_nobody();
}

/* After "undumpable" only root may trace the target; heaptap and its guardian run as another
 * user. */
HT_TEST(undumpable_during_a_capture)
{
	struct victim victim;
	struct tap tap = {0};
	char pid[16], remedy[48];
	if (getuid() != 0) {
		printf("skipped: lasting: undumpable_during_a_capture: needs root\n");
		return;
	}
	ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	victim_start(&victim, (const char *[]){"/usr/bin/setpriv", "--reuid=65534", "--regid=65534",
				      "--clear-groups", run_built("tests/targets/actor"), NULL});
	struct procsnap *before = procsnap_take(victim.pid, 0);
	snprintf(pid, sizeof(pid), "%d", victim.pid);
	snprintf(remedy, sizeof(remedy), "`sudo heaptap recover -p %s`", pid);
	tap.target = victim.pid;
	run_start_prepared(&tap.run,
		(const char *[]){run_built("heaptap"), "attach", "-p", pid, "--symbolize", "later",
			"-o", "/dev/null", "--json", NULL},
		be_nobody, NULL);
	tap_wait_on(&tap, "/actor");
	free(victim_ask(&victim, "undumpable", HEAPTAP_MS));
	pid_t guardian = tap_guardian(&tap);
	/* heaptap may have noticed the change and ended before this signal. */
	kill(tap.run.pid, SIGINT);
	ck_assert_int_eq(run_wait(&tap.run, HEAPTAP_MS), DETACH_INCOMPLETE);
	char *out = run_out(&tap.run), *err = run_err(&tap.run), *why = out[0] ? out : err;
	ck_assert_msg(strstr(why, "PR_SET_DUMPABLE") && strstr(why, remedy), "%s", why);
	free(out);
	free(err);
	run_deinit(&tap.run);
	/* Do what the message says: recover as root. */
	kill(guardian, SIGKILL);
	run_until(tap_guardian_is_done(victim.pid), DONE_MS);
	json_decref(report_run("recover", victim.pid, DONE));
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
}

HT_SUITE("integration/lasting")
