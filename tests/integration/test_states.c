/* SPDX-License-Identifier: Apache-2.0
 *
 * Targets that cannot be stopped, now or ever: heaptap works or refuses within its deadline, leaves
 * their state unchanged, and holds no thread. The guardian removes the leftovers when the state is
 * over.
 */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/child.h"
#include "tests/support/ctlgroup.h"
#include "tests/support/gotwords.h"
#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/report.h"
#include "tests/support/sample.h"
#include "tests/support/sweep.h"
#include "tests/support/tap.h"
#include "tests/support/tmpdir.h"
#include "tests/support/victim.h"

#define ANSWER_MS     60000
#define GUARDIAN_MS   60000
#define REFUSED	      3
#define INCOMPLETE    6
#define RSEQ_CYCLES   sample_size(20, 6)
#define FDS_LOOKED_AT 1024

static void start(struct victim *victim, const char *name, const char *state, const char *more)
{
	char path[64];
	snprintf(path, sizeof(path), "tests/targets/%s", name);
	victim_start(victim, (const char *[]){run_built(path), state, more, NULL});
}

static bool is_traced(pid_t pid)
{
	char path[300], line[256];
	bool traced = false;
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	DIR *task = opendir(path);
	ck_assert_ptr_nonnull(task);
	for (struct dirent *entry; (entry = readdir(task));) {
		int tracer = 0;
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%s/status", pid, entry->d_name);
		FILE *status = fopen(path, "re");
		while (status && fgets(line, sizeof(line), status))
			if (sscanf(line, "TracerPid: %d", &tracer) == 1)
				break;
		if (status)
			fclose(status);
		traced |= tracer != 0;
	}
	closedir(task);
	return traced;
}

/* Polls, because a guardian that keeps trying traces a thread for short times. */
static void check_untraced(pid_t pid)
{
	run_until(!is_traced(pid), ANSWER_MS);
}

static void cycle(struct victim *victim, unsigned flags)
{
	struct procsnap *before = procsnap_take(victim->pid, flags);
	struct tap tap;
	tap_start(&tap, victim->pid, (const char *[]){"--symbolize", "later", NULL});
	tap_wait_any(&tap);
	json_t *attach = tap_stop(&tap, 0);
	tap_check_clean(attach);
	json_decref(attach);
	unlink(tap.trace);
	procsnap_verify(before, victim->pid);
}

/* Attaches where heaptap must refuse. Returns its exit status and its message (malloc'd). */
static int try_attach(const struct victim *victim, char **ret_err)
{
	char pid[16], *trace = tmpdir_path("trace");
	snprintf(pid, sizeof(pid), "%d", victim->pid);
	int status = run_program((const char *[]){run_built("heaptap"), "attach", "-q", "-p", pid,
					 "-o", trace, NULL},
		RUN_REFUSAL_MS, NULL, ret_err);
	ck_assert_int_ne(unlink(trace), 0);
	free(trace);
	return status;
}

static void check_refused(const struct victim *victim, int status, char *err, const char *why)
{
	ck_assert_msg(status == REFUSED && strstr(err, why), "status %d: %s", status, err);
	ck_assert_ptr_eq(strchr(err, '\n'), err + strlen(err) - 1);
	check_untraced(victim->pid);
	free(err);
}

/* Ends the capture in a state that prevents the detach; heaptap must report `reason`. `end` ends
 * the state, and the guardian must then finish. */
static void detach_later(struct victim *victim, struct tap *tap, struct procsnap *before,
	const char *reason, void (*end)(struct victim *victim))
{
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	json_t *attach = tap_stop(tap, INCOMPLETE);
	ck_assert_uint_eq(report_u64(attach, "level"), 3);
	const char *why = report_text(attach, "why");
	ck_assert_msg(strstr(why, reason) && strstr(why, "the guardian goes on trying"), "%s", why);
	json_decref(attach);
	end(victim);
	procsnap_wait(before, victim->pid, GUARDIAN_MS);
	procsnap_destroy(before);
	run_until(tap_guardian_is_done(victim->pid), GUARDIAN_MS);
	victim_prove_alive(victim);
	cycle(victim, PROCSNAP_MASKS_CHANGE);
	victim_stop(victim);
}

static void resume(struct victim *victim)
{
	check_untraced(victim->pid);
	ck_assert_int_eq(child_state(victim->pid), 'T');
	kill(victim->pid, SIGCONT);
}

HT_TEST(stopped_while_tapped)
{
	struct victim victim;
	struct tap tap;
	start(&victim, "busy", NULL, NULL);
	struct procsnap *before = procsnap_take(victim.pid, PROCSNAP_MASKS_CHANGE);
	tap_start(&tap, victim.pid, NULL);
	tap_wait_on(&tap, "/busy");
	kill(victim.pid, SIGSTOP);
	run_until(child_state(victim.pid) == 'T', ANSWER_MS);
	detach_later(&victim, &tap, before, "it is stopped (SIGSTOP", resume);
}

HT_TEST(continued_in_time)
{
	struct victim victim;
	struct tap tap;
	start(&victim, "busy", NULL, NULL);
	struct procsnap *before = procsnap_take(victim.pid, PROCSNAP_MASKS_CHANGE);
	tap_start(&tap, victim.pid, NULL);
	tap_wait_on(&tap, "/busy");
	kill(victim.pid, SIGSTOP);
	run_until(child_state(victim.pid) == 'T', ANSWER_MS);
	kill(tap.run.pid, SIGINT);
	size_t all;
	run_until(gotwords_tapped(victim.pid, "/busy", &all) == 0, ANSWER_MS);
	kill(victim.pid, SIGCONT);
	json_t *attach = tap_wait(&tap, 0);
	tap_check_clean(attach);
	json_decref(attach);
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
}

/* --- a tracer that comes during the capture ------------------------------------------------------
 */

static struct child tracer;

static void hold(const void *arg)
{
	char path[300];
	pid_t pid = *(const pid_t *)arg;
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	DIR *task = opendir(path);
	for (struct dirent *entry; task && (entry = readdir(task));)
		if (entry->d_name[0] != '.' &&
			ptrace(PTRACE_SEIZE, (pid_t)strtol(entry->d_name, NULL, 10), NULL, NULL) <
				0)
			_exit(1);
	child_ready(0);
	child_wait();
}

static void end_tracer(struct victim *victim)
{
	(void)victim;
	child_kill(&tracer);
}

HT_TEST(traced_while_tapped)
{
	struct victim victim;
	struct tap tap;
	start(&victim, "actor", NULL, NULL);
	struct procsnap *before = procsnap_take(victim.pid, PROCSNAP_MASKS_CHANGE);
	tap_start(&tap, victim.pid, NULL);
	tap_wait_on(&tap, "/actor");
	tracer = child_fork(hold, &victim.pid);
	detach_later(&victim, &tap, before, "another tracer holds all its threads", end_tracer);
}

/* --- threads that are not there, or cannot be stopped --------------------------------------------
 */

/* Without a main thread, /proc/PID shows neither mappings nor descriptors; /proc/PID/task/TID of a
 * remaining thread does. */
static size_t lines_of_heaptap(pid_t pid)
{
	char path[300], line[4400];
	size_t maps = 0, ours = 0;
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	DIR *task = opendir(path);
	ck_assert_ptr_nonnull(task);
	for (struct dirent *entry; (entry = readdir(task));) {
		snprintf(path, sizeof(path), "/proc/%d/task/%s/maps", pid, entry->d_name);
		FILE *file = entry->d_name[0] == '.' ? NULL : fopen(path, "re");
		while (file && fgets(line, sizeof(line), file)) {
			maps++;
			ours += strstr(line, "heaptap-") != NULL;
		}
		if (file)
			fclose(file);
	}
	closedir(task);
	ck_assert_uint_gt(maps, 0);
	return ours;
}

/* Returns a thread other than the ended main thread. The thread's directory in /proc shows what
 * that of the process no longer shows. */
static pid_t thread_left(pid_t pid)
{
	char path[64];
	pid_t left = 0;
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	DIR *task = opendir(path);
	ck_assert_ptr_nonnull(task);
	for (struct dirent *entry; (entry = readdir(task)) && (!left || left == pid);)
		left = (pid_t)strtol(entry->d_name, NULL, 10);
	closedir(task);
	ck_assert(left && left != pid);
	return left;
}

HT_TEST(leader_has_ended)
{
	struct victim victim;
	struct tap tap;
	start(&victim, "states", "leader", NULL);
	run_until(child_state(victim.pid) == 'Z', ANSWER_MS);
	pid_t left = thread_left(victim.pid);
	struct procsnap *before = procsnap_take(left, PROCSNAP_MASKS_CHANGE);
	tap_start(&tap, victim.pid, NULL);
	run_until(lines_of_heaptap(victim.pid) > 0 || run_has_ended(&tap.run), ANSWER_MS);
	json_t *attach = tap_stop(&tap, 0);
	tap_check_clean(attach);
	json_decref(attach);
	ck_assert_uint_eq(lines_of_heaptap(victim.pid), 0);
	procsnap_verify(before, left);
	check_untraced(victim.pid);
	victim_prove_alive(&victim);
	victim_stop(&victim);
}

static size_t sockets_of(pid_t pid)
{
	char path[320], link[64];
	size_t sockets = 0;
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	DIR *task = opendir(path);
	ck_assert_ptr_nonnull(task);
	for (struct dirent *entry; (entry = readdir(task));) {
		for (int fd = 0; fd < FDS_LOOKED_AT; fd++) {
			snprintf(path, sizeof(path), "/proc/%d/task/%s/fd/%d", pid, entry->d_name,
				fd);
			sockets += readlink(path, link, sizeof(link)) > 7 &&
				   strncmp(link, "socket:", 7) == 0;
		}
	}
	closedir(task);
	return sockets;
}

/* heaptap is killed when it has taken the image's descriptor, but has not begun the journal. The
 * guardian must find the agent's socket by the record that the stub left. */
HT_TEST(leader_has_ended_and_heaptap_is_killed)
{
	struct victim victim;
	struct sweep sweep;
	HT_FREED char *trace = tmpdir_path("trace");
	start(&victim, "states", "leader", NULL);
	run_until(child_state(victim.pid) == 'Z', ANSWER_MS);
	size_t sockets = sockets_of(victim.pid);
	pid_t left = thread_left(victim.pid);
	struct procsnap *before = procsnap_take(left, PROCSNAP_MASKS_CHANGE);
	sweep_attach(&sweep, victim.pid, trace,
		&(struct sweep_plan){
			.action = SWEEP_KILL, .role = SWEEP_MAIN, .from = SYS_getsockopt, .at = 1});
	sweep_wait(&sweep, GUARDIAN_MS);
	ck_assert(sweep.hit);
	sweep_deinit(&sweep);
	ck_assert_uint_eq(lines_of_heaptap(victim.pid), 0);
	ck_assert_uint_eq(sockets_of(victim.pid), sockets);
	procsnap_verify(before, left);
	victim_prove_alive(&victim);
	victim_stop(&victim);
	unlink(trace);
}

static pid_t start_vfork(struct victim *victim)
{
	char path[64];
	pid_t child = 0;
	victim_send(victim, "vfork");
	run_until(child_state(victim->pid) == 'D', ANSWER_MS);
	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", victim->pid, victim->pid);
	FILE *children = fopen(path, "re");
	ck_assert(children && fscanf(children, "%d", &child) == 1);
	fclose(children);
	return child;
}

static void end_vfork(struct victim *victim, pid_t child)
{
	kill(child, SIGKILL);
	HT_FREED char *answer = victim_line(victim, ANSWER_MS);
	ck_assert_str_eq(answer, "again");
}

HT_TEST(only_thread_in_vfork)
{
	struct victim victim;
	start(&victim, "states", "vfork", NULL);
	struct procsnap *before = procsnap_take(victim.pid, 0);
	pid_t child = start_vfork(&victim);
	char *err;
	int status = try_attach(&victim, &err);
	check_refused(&victim, status, err, "no thread of the process could be stopped");
	ck_assert_int_eq(child_state(victim.pid), 'D');
	end_vfork(&victim, child);
	procsnap_verify(before, victim.pid);
	cycle(&victim, 0);
	victim_stop(&victim);
}

HT_TEST(one_thread_in_vfork)
{
	struct victim victim;
	struct tap tap;
	start(&victim, "states", "vfork", "-t");
	struct procsnap *before = procsnap_take(victim.pid, PROCSNAP_MASKS_CHANGE);
	pid_t child = start_vfork(&victim);
	tap_start(&tap, victim.pid, NULL);
	tap_wait_any(&tap);
	end_vfork(&victim, child);
	json_t *attach = tap_stop(&tap, 0);
	tap_check_clean(attach);
	json_decref(attach);
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
}

static pid_t borrower;

static void end_borrowing(struct victim *victim)
{
	ck_assert_int_eq(child_state(victim->pid), 'D');
	end_vfork(victim, borrower);
}

/* A vfork child shares the memory, and may be about to enter a hook. */
HT_TEST(in_vfork_while_tapped)
{
	struct victim victim;
	struct tap tap;
	start(&victim, "states", "vfork", "-t");
	struct procsnap *before = procsnap_take(victim.pid, PROCSNAP_MASKS_CHANGE);
	tap_start(&tap, victim.pid, NULL);
	tap_wait_on(&tap, "/states");
	borrower = start_vfork(&victim);
	detach_later(&victim, &tap, before, "thread", end_borrowing);
}

/* --- restartable sequences
 * ----------------------------------------------------------------------- */

HT_TEST(within_restartable_sequences)
{
	struct victim victim;
	start(&victim, "states", "rseq", NULL);
	for (unsigned i = 0; i < RSEQ_CYCLES; i++)
		cycle(&victim, PROCSNAP_MASKS_CHANGE);
	free(victim_ask(&victim, "count", ANSWER_MS));
	victim_stop(&victim);
}

/* --- a frozen control group
 * ---------------------------------------------------------------------- */

struct freezer {
	/* `events`: contains "frozen 1" when the group is frozen */
	const char *freeze, *thaw, *events;
};

static const struct freezer legacy = {"FROZEN", "THAWED", NULL};
static const struct freezer unified = {"1", "0", "cgroup.events"};
static const struct ctlgroup_kind legacy_kinds[] = {
	{"/sys/fs/cgroup/freezer", "freezer.state", "THAWED"}};
static const struct ctlgroup_kind unified_kinds[] = {
	{"/sys/fs/cgroup/unified", "cgroup.freeze", "0"}, {"/sys/fs/cgroup", "cgroup.freeze", "0"}};

static const struct freezer *freezer;
static const char *freezer_file;
static struct ctlgroup group;

static bool make_group(
	const struct freezer *choice, const struct ctlgroup_kind kinds[], size_t count)
{
	freezer = choice;
	freezer_file = kinds->file;
	return ctlgroup_make(&group, kinds, count);
}

/* Also runs after a failed test: a frozen process does not die of SIGKILL. */
static void thaw(void)
{
	ctlgroup_set(&group, freezer_file, freezer->thaw);
}

static bool is_frozen(void)
{
	char text[256] = "", path[256];
	snprintf(path, sizeof(path), "%s/%s", group.path,
		freezer->events ? freezer->events : freezer_file);
	FILE *events = fopen(path, "re");
	size_t got = events ? fread(text, 1, sizeof(text) - 1, events) : 0;
	text[got] = '\0';
	if (events)
		fclose(events);
	return strstr(text, freezer->events ? "frozen 1" : freezer->freeze);
}

static void start_in_group(struct victim *victim)
{
	start(victim, "actor", NULL, NULL);
	ctlgroup_move(&group, victim->pid);
}

static void freeze(void)
{
	atexit(thaw);
	ck_assert(ctlgroup_set(&group, freezer_file, freezer->freeze));
	run_until(is_frozen(), ANSWER_MS);
}

/* Checks that the group is still frozen, then thaws it. */
static void end_frozen(struct victim *victim)
{
	(void)victim;
	ck_assert(is_frozen());
	thaw();
}

static void frozen_before(void)
{
	struct victim victim;
	char *err;
	start_in_group(&victim);
	struct procsnap *before = procsnap_take(victim.pid, PROCSNAP_MASKS_CHANGE);
	freeze();
	int status = try_attach(&victim, &err);
	check_refused(&victim, status, err, "thaw it first");
	end_frozen(&victim);
	victim_prove_alive(&victim);
	procsnap_verify(before, victim.pid);
	cycle(&victim, PROCSNAP_MASKS_CHANGE);
	victim_stop(&victim);
	ctlgroup_remove(&group);
}

static void frozen_meanwhile(void)
{
	struct victim victim;
	struct tap tap;
	start_in_group(&victim);
	struct procsnap *before = procsnap_take(victim.pid, PROCSNAP_MASKS_CHANGE);
	tap_start(&tap, victim.pid, NULL);
	tap_wait_on(&tap, "/actor");
	freeze();
	detach_later(&victim, &tap, before, "is frozen", end_frozen);
	ctlgroup_remove(&group);
}

HT_TEST(frozen)
{
	if (make_group(&legacy, legacy_kinds, HT_ARRAY_SIZE(legacy_kinds)))
		frozen_before();
}

HT_TEST(frozen_unified)
{
	if (make_group(&unified, unified_kinds, HT_ARRAY_SIZE(unified_kinds)))
		frozen_before();
}

HT_TEST(frozen_while_tapped)
{
	if (make_group(&legacy, legacy_kinds, HT_ARRAY_SIZE(legacy_kinds)))
		frozen_meanwhile();
}

HT_TEST(frozen_unified_while_tapped)
{
	if (make_group(&unified, unified_kinds, HT_ARRAY_SIZE(unified_kinds)))
		frozen_meanwhile();
}

static void compute(const void *arg)
{
	(void)arg;
	child_ready(0);
	for (volatile unsigned long turns = 0;; turns++)
		;
}

static void stop_now(void *context)
{
	const struct child *child = context;
	kill(child->pid, SIGSTOP);
	run_until(strchr("Tt", child_state(child->pid)), ANSWER_MS);
}

/* The process gets a stop signal while its thread runs the stub. The stub must finish, and the
 * process be stopped afterwards. */
HT_TEST(stopped_in_the_stub)
{
	char pid[16], *trace = tmpdir_path("trace");
	struct sweep sweep;
	struct child child = child_fork(compute, NULL);
	struct procsnap *before = procsnap_take(child.pid, PROCSNAP_MASKS_CHANGE);
	snprintf(pid, sizeof(pid), "%d", child.pid);
	sweep_start(&sweep,
		(const char *[]){run_built("heaptap"), "attach", "-q", "-d", "1s", "-p", pid, "-o",
			trace, NULL},
		&(struct sweep_plan){.action = SWEEP_CALL,
			.role = SWEEP_WORKER,
			.from = SYS_pidfd_getfd,
			.at = 1,
			.call = stop_now,
			.context = &child});
	run_until(child_state(child.pid) == 'T', ANSWER_MS);
	check_untraced(child.pid);
	kill(child.pid, SIGCONT);
	int status = sweep_wait(&sweep, GUARDIAN_MS);
	char *err = run_err(&sweep.run);
	ck_assert_msg(status == 0, "status %d: %s", status, err);
	free(err);
	procsnap_wait(before, child.pid, GUARDIAN_MS);
	procsnap_destroy(before);
	sweep_deinit(&sweep);
	ck_assert_int_eq(unlink(trace), 0);
	free(trace);
	child_kill(&child);
}

HT_SUITE_WAITING("integration/states", stopped_while_tapped, traced_while_tapped,
	only_thread_in_vfork, in_vfork_while_tapped, frozen_while_tapped,
	frozen_unified_while_tapped, stopped_in_the_stub)
