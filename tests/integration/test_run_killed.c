/* SPDX-License-Identifier: Apache-2.0
 *
 * `heaptap run` is killed, or a call fails, at each of its system calls (HEAPTAP_SWEEP,
 * tests/support/sweep.h). Either the command has not run at all and its process is gone, or it runs
 * correctly, and nothing of heaptap stays in it.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/command.h"
#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/sweep.h"
#include "tests/support/tmpdir.h"

#define HEAPTAP_MS 90000
#define LOOK_MS	   30000
#define BEGIN_MS   20000
#define TOLD_EVERY 100

/* True: the command is env, which execs tests/targets/busy; false: the command is busy itself. */
static bool by_exec;

struct trial {
	struct command command;
	struct sweep sweep;
	const char *argv[16];
	/* `trace`: the trace given to -o; `last`: the trace of busy, which with by_exec is the
	 * second one */
	char *trace, *last;
};

static void trial_start(struct trial *trial, const struct sweep_plan *like)
{
	struct sweep_plan plan = *like;

	*trial = (struct trial){.trace = tmpdir_path("killed.htap"),
		.last = tmpdir_path(by_exec ? "killed.2.htap" : "killed.htap")};
	unlink(trial->last);
	const char *const argv[] = {run_built("heaptap"), "run", "-f", "-q", "-d", "30ms", "-o",
		trial->trace, "--", run_built("tests/targets/busy"), "-t", "2", NULL};
	const char *const exec_argv[] = {run_built("heaptap"), "run", "-f", "-d", "300ms", "-o",
		trial->trace, "--", "env", run_built("tests/targets/busy"), "-t", "2", NULL};
	if (by_exec)
		memcpy(trial->argv, exec_argv, sizeof(exec_argv));
	else
		memcpy(trial->argv, argv, sizeof(argv));
	command_init(&trial->command);
	plan.prepare = command_prepare;
	plan.context = &trial->command;
	plan.command = true;
	sweep_start(&trial->sweep, trial->argv, &plan);
}

static void trial_deinit(struct trial *trial)
{
	command_deinit(&trial->command);
	sweep_deinit(&trial->sweep);
	free(trial->trace);
	free(trial->last);
}

/* Runs to the end without a hit and counts system calls; heaptap detaches when -d is over. */
static uint64_t count_calls(const struct sweep_plan *like)
{
	struct sweep_plan plan = *like;
	struct trial trial;
	plan.action = SWEEP_COUNT;
	trial_start(&trial, &plan);
	ck_assert(command_begins(&trial.command, LOOK_MS));
	run_until(procsnap_is_clean(trial.command.victim.pid), LOOK_MS);
	victim_prove_alive(&trial.command.victim);
	victim_send(&trial.command.victim, "stop");
	ck_assert_int_eq(sweep_wait(&trial.sweep, HEAPTAP_MS), 0);
	uint64_t calls = trial.sweep.calls[plan.role];
	trial_deinit(&trial);
	return calls;
}

static bool is_gone(pid_t pid)
{
	return !pid || (kill(pid, 0) < 0 && errno == ESRCH);
}

static void recover(pid_t pid)
{
	char text[16], *err;
	snprintf(text, sizeof(text), "%d", pid);
	int status =
		run_program((const char *[]){run_built("heaptap"), "recover", "-p", text, NULL},
			HEAPTAP_MS, NULL, &err);
	ck_assert_msg(status == 0, "recover ended with %d: %s", status, err);
	free(err);
}

/* Checks the command after all processes of heaptap have ended. */
static void check_after_death(struct trial *trial, bool orphaned)
{
	struct victim *victim = &trial->command.victim;
	command_forked(&trial->command);
	victim->pid = trial->sweep.command;
	if (!command_begins(&trial->command, BEGIN_MS)) {
		/* The command has become the test's child: reap it. */
		if (victim->pid && orphaned)
			victim_wait(victim, LOOK_MS);
		ck_assert_msg(is_gone(victim->pid), "%s", sweep_text(&trial->sweep));
		return;
	}
	victim_prove_alive(victim);
	if (trial->sweep.plan.action == SWEEP_KILL_ALL && !procsnap_is_clean(victim->pid))
		recover(victim->pid);
	ck_assert_msg(procsnap_is_clean(victim->pid), "%s: %s", sweep_text(&trial->sweep),
		procsnap_ours(victim->pid));
	victim_prove_alive(victim);
	victim_send(victim, "stop");
	ck_assert_int_eq(victim_wait(victim, LOOK_MS), 0);
}

/* Is the last trace complete, or will there be none? */
static bool is_over(const struct trial *trial)
{
	HT_FREED char *err = run_err(&trial->sweep.run);
	bool is_left = strstr(err, "which is not recorded") != NULL;
	return is_left || access(trial->last, F_OK) == 0;
}

/* Waits for the hit. False if the run is over before the call is reached, because the number of
 * polling calls varies. */
static bool is_hit(struct trial *trial)
{
	run_until(atomic_load(&trial->sweep.hit) || is_over(trial), LOOK_MS);
	if (atomic_load(&trial->sweep.hit)) {
		/* Print the place now: a later failure may come from code that does not know it. */
		if (places_wanted())
			printf("%s\n", sweep_text(&trial->sweep)), fflush(stdout);
		return true;
	}
	ck_assert(command_begins(&trial->command, LOOK_MS));
	victim_prove_alive(&trial->command.victim);
	victim_send(&trial->command.victim, "stop");
	sweep_wait(&trial->sweep, HEAPTAP_MS);
	trial_deinit(trial);
	return false;
}

static bool kill_at(const struct sweep_plan *plan)
{
	struct trial trial;
	trial_start(&trial, plan);
	if (!is_hit(&trial))
		return false;
	/* Main may survive and wait for a command that has no reason to stop: stop it. */
	if (plan->action == SWEEP_KILL && trial.sweep.hit_role != SWEEP_MAIN) {
		run_until(command_has_begun(&trial.command) || is_gone(trial.sweep.run.pid) ||
				  is_gone(trial.sweep.command),
			LOOK_MS);
		if (command_has_begun(&trial.command)) {
			ck_assert(command_begins(&trial.command, LOOK_MS));
			run_until(procsnap_is_clean(trial.command.victim.pid), LOOK_MS);
			victim_prove_alive(&trial.command.victim);
			victim_send(&trial.command.victim, "stop");
		}
		sweep_wait(&trial.sweep, HEAPTAP_MS);
		trial_deinit(&trial);
		return true;
	}
	int status = sweep_wait(&trial.sweep, HEAPTAP_MS);
	ck_assert_msg(status == 128 + SIGKILL, "%s: %d", sweep_text(&trial.sweep), status);
	check_after_death(&trial, true);
	trial_deinit(&trial);
	return true;
}

static void sweep_places(
	const char *name, struct sweep_plan plan, bool (*once)(const struct sweep_plan *plan))
{
	size_t runs = 0;

	plan.places = places_new(run_built("heaptap"));
	while (once(&plan))
		if (++runs % TOLD_EVERY == 0)
			printf("places: %s, %zu runs\n", name, runs), fflush(stdout);
	printf("places: %s, %zu runs, %zu places, none left\n", name, runs,
		places_count(plan.places));
	places_destroy(plan.places);
}

static void sweep_run(const char *name, struct sweep_plan plan, unsigned points,
	bool (*once)(const struct sweep_plan *plan))
{
	if (places_wanted()) {
		sweep_places(name, plan, once);
		return;
	}
	uint64_t calls = count_calls(&plan), hits = 0;
	struct sweep_points at = sweep_points_of(name, calls, points);
	/* The calls after the first `calls` are only polling of main. */
	for (plan.at = at.first; plan.at <= at.last && plan.at <= calls; plan.at += at.stride)
		hits += once(&plan);
	for (plan.at = at.first / 2; !hits && plan.at; plan.at /= 2)
		hits += once(&plan);
	/* The first run may have polled long and so counted too many calls: count again. */
	if (hits < at.count / 2) {
		uint64_t again = count_calls(&plan);
		calls = again < calls ? again : calls;
	}
	sweep_points_check(&at, calls, hits);
}

static void kill_sweep(const char *name, enum sweep_action action, unsigned points)
{
	sweep_run(name, (struct sweep_plan){.action = action, .role = SWEEP_ANY}, points, kill_at);
}

HT_TEST(main_is_killed)
{
	kill_sweep("run, main killed", SWEEP_KILL_MAIN, 8);
}

HT_TEST(all_are_killed)
{
	kill_sweep("run, all killed", SWEEP_KILL_ALL, 6);
}

HT_TEST(any_is_killed)
{
	kill_sweep("run, one killed", SWEEP_KILL, 6);
}

/* heaptap must exit with the command's status, or with its own error status if the command has not
 * run. */
static bool fail_at(const struct sweep_plan *plan)
{
	struct trial trial;
	trial_start(&trial, plan);
	if (!is_hit(&trial))
		return false;
	run_until(command_has_begun(&trial.command) || is_gone(trial.sweep.run.pid), LOOK_MS);
	bool begun = command_has_begun(&trial.command);
	if (begun) {
		ck_assert(command_begins(&trial.command, LOOK_MS));
		victim_prove_alive(&trial.command.victim);
		run_until(procsnap_is_clean(trial.command.victim.pid), LOOK_MS);
		victim_prove_alive(&trial.command.victim);
		victim_send(&trial.command.victim, "stop");
	}
	int status = sweep_wait(&trial.sweep, HEAPTAP_MS);
	char *err = run_err(&trial.sweep.run);
	ck_assert_msg(begun ? status == 0 : status >= 1 && status <= 4, "%s: %d: %s",
		sweep_text(&trial.sweep), status, err);
	ck_assert_msg(begun || strstr(err, "heaptap: "), "%s: %s", sweep_text(&trial.sweep), err);
	ck_assert_msg(is_gone(trial.sweep.command), "%s", sweep_text(&trial.sweep));
	free(err);
	trial_deinit(&trial);
	return true;
}

static void fail_sweep(const char *name, int sys, unsigned points)
{
#ifdef __SANITIZE_ADDRESS__
	printf("skipped: run_killed: a sanitizer ends a process whose own calls for memory fail\n");
	(void)name, (void)sys, (void)points, (void)fail_at;
#else
	/* Not calls of heaptap's own dynamic linker, which is not tested. */
	sweep_run(name,
		(struct sweep_plan){.action = SWEEP_FAIL,
			.role = SWEEP_ANY,
			.value = sys,
			.from = SYS_socketpair},
		points, fail_at);
#endif
}

HT_TEST(a_call_fails)
{
	fail_sweep("run, ENOMEM", ENOMEM, 3);
	fail_sweep("run, EPERM", EPERM, 3);
	fail_sweep("run, EINTR", EINTR, 3);
}

/* The same for a command that execs and is followed: if any process of heaptap dies, either the new
 * program runs, or the command has not run at all. */
HT_TEST(main_is_killed_by_exec)
{
	by_exec = true;
	kill_sweep("run, by exec, main killed", SWEEP_KILL_MAIN, 8);
}

HT_TEST(all_are_killed_by_exec)
{
	by_exec = true;
	kill_sweep("run, by exec, all killed", SWEEP_KILL_ALL, 6);
}

HT_TEST(any_is_killed_by_exec)
{
	by_exec = true;
	kill_sweep("run, by exec, one killed", SWEEP_KILL, 6);
}

HT_TEST(a_call_fails_by_exec)
{
	by_exec = true;
	fail_sweep("run, by exec, ENOMEM", ENOMEM, 3);
	fail_sweep("run, by exec, EPERM", EPERM, 3);
}

HT_SUITE("integration/run_killed")
