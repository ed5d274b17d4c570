/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap is killed at its system calls (HEAPTAP_SWEEP, tests/support/sweep.h), through attach,
 * capture and detach: the target lives and computes correctly, and nothing stays in it.
 */
#include <grp.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/ht_check.h"
#include "tests/support/ordeal.h"

#define SLOW_MS 40 /* long enough for the guardian to look at the worker */
#define NOBODY	65534
/* The worker's calls around the one that sends its answer, about the 11th, counted from its first
 * pidfd_getfd. */
#define ANSWER_FIRST 9
#define ANSWER_LAST  13

/* In canaries the stub runs in the only thread, which computes; in the other targets in the main
 * thread, which waits in read(2). */
static const struct ordeal_target computing = {"computing", {"canaries"}, NULL, 0, false};
static const struct ordeal_target threaded = {"threaded", {"busy", "-t", "4"}, NULL, 0, false};
/* One of sleepy's calls has its own signal mask. */
static const struct ordeal_target blocked = {
	"blocked", {"sleepy"}, NULL, PROCSNAP_MASKS_CHANGE, false};
static const struct ordeal_target blocked_restarting = {
	"blocked", {"sleepy", "-r"}, NULL, 0, false};
static const struct ordeal_target storm = {
	"in a signal storm", {"busy", "-t2", "-s"}, NULL, PROCSNAP_MASKS_CHANGE, true};

static const struct ordeal_target entries = {
	"hooked at its entries", {"busy-direct", "-t", "2"}, "auto", 0, false};
static const struct ordeal_target entries_storm = {"hooked at its entries in a signal storm",
	{"busy-direct", "-t2", "-s"}, "auto", PROCSNAP_MASKS_CHANGE, true};
static const struct ordeal_target unlinked = {
	"statically linked", {"busy-static", "-t", "2"}, "auto", 0, false};

static bool kill_at(struct ordeal *o, const struct sweep_plan *plan)
{
	struct sweep sweep;
	char where[200];

	sweep_start(&sweep, o->argv, plan);
	sweep_wait(&sweep, ORDEAL_HEAPTAP_MS);
	snprintf(where, sizeof(where), "%s, %s", o->target->name, sweep_text(&sweep));
	victim_prove_alive(&o->victim);
	if (plan->action == SWEEP_KILL_ALL)
		ordeal_recover(o, where);
	ordeal_check(o, where);
	ordeal_check_trace(o, false);
	sweep_deinit(&sweep);
	return sweep.hit;
}

static void kill_sweep(
	const struct ordeal_target *target, enum sweep_action action, enum sweep_role role)
{
	struct ordeal ordeal;
	ordeal_init(&ordeal, target);
	ordeal_sweep(&ordeal, (struct sweep_plan){.action = action, .role = role}, kill_at);
	ordeal_deinit(&ordeal);
}

HT_TEST(main_killed_entries)
{
	kill_sweep(&entries, SWEEP_KILL, SWEEP_MAIN);
}

HT_TEST(main_killed_beside_worker_entries)
{
	kill_sweep(&entries_storm, SWEEP_KILL_MAIN, SWEEP_WORKER);
}

HT_TEST(main_killed_static)
{
	kill_sweep(&unlinked, SWEEP_KILL, SWEEP_MAIN);
}

HT_TEST(heaptap_killed_beside_static_target)
{
	kill_sweep(&unlinked, SWEEP_KILL_ALL, SWEEP_ANY);
}

HT_TEST(heaptap_killed_with_entry_hooks)
{
	kill_sweep(&entries, SWEEP_KILL_ALL, SWEEP_ANY);
}

HT_TEST(main_killed_computing)
{
	kill_sweep(&computing, SWEEP_KILL, SWEEP_MAIN);
}

HT_TEST(main_killed_threaded)
{
	kill_sweep(&threaded, SWEEP_KILL, SWEEP_MAIN);
}

HT_TEST(main_killed_blocked)
{
	kill_sweep(&blocked, SWEEP_KILL, SWEEP_MAIN);
}

HT_TEST(main_killed_storm)
{
	kill_sweep(&storm, SWEEP_KILL, SWEEP_MAIN);
}

HT_TEST(main_killed_beside_worker_computing)
{
	kill_sweep(&computing, SWEEP_KILL_MAIN, SWEEP_WORKER);
}

HT_TEST(main_killed_beside_worker_threaded)
{
	kill_sweep(&threaded, SWEEP_KILL_MAIN, SWEEP_WORKER);
}

HT_TEST(main_killed_beside_worker_blocked)
{
	kill_sweep(&blocked, SWEEP_KILL_MAIN, SWEEP_WORKER);
}

HT_TEST(main_killed_beside_worker_storm)
{
	kill_sweep(&storm, SWEEP_KILL_MAIN, SWEEP_WORKER);
}

/* After main's death the worker finishes its work on the thread that it holds, and no other process
 * of heaptap may act before that. */
HT_TEST(main_killed_beside_a_slow_worker)
{
	struct ordeal ordeal;
	struct sweep_plan plan = {.action = SWEEP_KILL_MAIN,
		.role = SWEEP_WORKER,
		.request = PTRACE_SETREGSET,
		.dally_ms = SLOW_MS};
	ordeal_init(&ordeal, &computing);
	uint64_t calls = ordeal_undisturbed(&ordeal, &plan);
	ck_assert_uint_ge(calls, 2);
	for (plan.at = 1; plan.at <= calls; plan.at++)
		kill_at(&ordeal, &plan);
	ordeal_deinit(&ordeal);
}

/*
 * A worker that is killed just after it has interrupted a thread leaves EINTR in calls that the
 * kernel cannot restart. So "blocked_restarting" has no such calls.
 */
HT_TEST(worker_killed_computing)
{
	kill_sweep(&computing, SWEEP_KILL, SWEEP_WORKER);
}

HT_TEST(worker_killed_threaded)
{
	kill_sweep(&threaded, SWEEP_KILL, SWEEP_WORKER);
}

HT_TEST(worker_killed_blocked)
{
	kill_sweep(&blocked_restarting, SWEEP_KILL, SWEEP_WORKER);
}

HT_TEST(worker_killed_storm)
{
	kill_sweep(&storm, SWEEP_KILL, SWEEP_WORKER);
}

HT_TEST(heaptap_killed_beside_computing_target)
{
	kill_sweep(&computing, SWEEP_KILL_ALL, SWEEP_ANY);
}

HT_TEST(heaptap_killed_beside_threaded_target)
{
	kill_sweep(&threaded, SWEEP_KILL_ALL, SWEEP_ANY);
}

HT_TEST(heaptap_killed_beside_blocked_target)
{
	kill_sweep(&blocked_restarting, SWEEP_KILL_ALL, SWEEP_ANY);
}

HT_TEST(heaptap_killed_in_a_signal_storm)
{
	kill_sweep(&storm, SWEEP_KILL_ALL, SWEEP_ANY);
}

/* A worker that dies after setting a thread's registers and before setting its mask has already
 * sent the thread to the stub. The stub alone then restores registers and mask. */
static void kill_as_the_mask_is_set(const struct ordeal_target *target, enum sweep_action action)
{
	struct ordeal ordeal;
	struct sweep_plan plan = {
		.action = action, .role = SWEEP_WORKER, .request = PTRACE_SETSIGMASK};
	ordeal_init(&ordeal, target);
	uint64_t calls = ordeal_undisturbed(&ordeal, &plan);
	ck_assert_uint_ge(calls, 2);
	for (plan.at = 1; plan.at <= calls; plan.at++)
		kill_at(&ordeal, &plan);
	ordeal_deinit(&ordeal);
}

HT_TEST(worker_killed_as_the_mask_is_set)
{
	kill_as_the_mask_is_set(&threaded, SWEEP_KILL);
	kill_as_the_mask_is_set(&computing, SWEEP_KILL);
}

HT_TEST(heaptap_killed_as_it_sets_the_mask)
{
	kill_as_the_mask_is_set(&threaded, SWEEP_KILL_ALL);
}

/* Without root only a process with the memfd can clean up once the worker has answered. */
static void kill_without_root(enum sweep_action action)
{
	struct ordeal ordeal;
	struct sweep_plan plan = {.action = action, .role = SWEEP_WORKER, .from = SYS_pidfd_getfd};
	if (getuid() == 0)
		ck_assert(!setgroups(0, NULL) && !setgid(NOBODY) && !setuid(NOBODY));
	ck_assert_int_eq(prctl(PR_SET_DUMPABLE, 1), 0);
	ordeal_init(&ordeal, &computing);
	for (plan.at = ANSWER_FIRST; plan.at <= ANSWER_LAST; plan.at++)
		kill_at(&ordeal, &plan);
	ordeal_deinit(&ordeal);
}

HT_TEST(worker_killed_without_root)
{
	kill_without_root(SWEEP_KILL);
}

HT_TEST(main_killed_beside_worker_without_root)
{
	kill_without_root(SWEEP_KILL_MAIN);
}

HT_TEST(guardian_killed)
{
	kill_sweep(&threaded, SWEEP_KILL, SWEEP_GUARDIAN);
}

HT_SUITE("integration/sweep")
