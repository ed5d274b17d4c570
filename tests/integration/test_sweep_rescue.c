/* SPDX-License-Identifier: Apache-2.0
 *
 * The processes that clean up fail, too. Main is killed in a capture, then the remaining processes
 * at a later system call; `heaptap recover` and `heaptap cleanup` are killed, or one of their
 * system calls fails (HEAPTAP_SWEEP, tests/support/sweep.h). The target lives and computes
 * correctly, heaptap's messages are true, and the next recover or cleanup removes the rest.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/gotwords.h"
#include "tests/support/ht_check.h"
#include "tests/support/ordeal.h"
#include "tests/support/tap.h"

#define POINTS		   6
#define POINTS_FAILING	   3
#define POINTS_ALL	   999
#define WRITES_MIN	   6 /* a few slots, the stub, the bytes in its place */
#define CLEANUP_WRITES_MIN 2 /* the stub, the bytes in its place */
#define DURATION_AT	   7 /* in an ordeal's argv */
#define STATUS_MAX	   7
#define TOMBSTONE	   6 /* the exit code if the jump page stays */

static const struct ordeal_target computing = {"computing", {"canaries"}, NULL, 0, false};
static const struct ordeal_target threaded = {"threaded", {"busy", "-t", "4"}, NULL, 0, false};
static const struct ordeal_target storm = {
	"in a signal storm", {"busy", "-t2", "-s"}, NULL, PROCSNAP_MASKS_CHANGE, true};

static const struct ordeal_target escaped = {"escaped", {"escape"}, NULL, 0, false};

typedef bool once_fn(struct ordeal *ordeal, const struct sweep_plan *plan, uint64_t *ret_calls);

static uint64_t calls_counted(struct ordeal *o, const struct sweep_plan *like, once_fn *once)
{
	struct sweep_plan plan = *like;
	uint64_t calls;
	plan.action = SWEEP_COUNT;
	once(o, &plan, &calls);
	return calls;
}

static void rescue_sweep(const struct ordeal_target *target, struct sweep_plan plan,
	unsigned point_count, once_fn *once)
{
	struct ordeal ordeal;
	ordeal_init(&ordeal, target);
	uint64_t calls = calls_counted(&ordeal, &plan, once), hits = 0, ignored;
	ck_assert(!plan.number || calls >= (target == &escaped ? CLEANUP_WRITES_MIN : WRITES_MIN));
	struct sweep_points points = sweep_points_of(target->name, calls, point_count);
	for (plan.at = points.first; plan.at <= points.last; plan.at += points.stride) {
		bool hit = once(&ordeal, &plan, &ignored);
		hits += hit;
		if (!hit && plan.at > calls)
			break;
	}
	for (plan.at = points.first / 2; !hits && plan.at; plan.at /= 2)
		hits += once(&ordeal, &plan, &ignored);
	/* The first run may have polled long and so counted too many calls: count again. */
	if (hits < calls / points.stride / 2) {
		uint64_t again = calls_counted(&ordeal, &plan, once);
		calls = again < calls ? again : calls;
	}
	printf("sweep: %s, %lu points reached\n", target->name, hits);
	sweep_points_check(&points, calls, hits);
	ordeal_deinit(&ordeal);
}

/* --- the guardian ------------------------------------------------------------------------------
 */

static bool is_tapped(const struct ordeal *o)
{
	size_t all, tapped = gotwords_tapped(o->victim.pid, o->target->argv[0], &all);
	return all > 0 && tapped == all;
}

/* Kills main during a capture, and all remaining processes at a later call. */
static bool rest_killed_at(struct ordeal *o, const struct sweep_plan *plan, uint64_t *ret_calls)
{
	struct sweep sweep;
	char where[200];
	o->argv[DURATION_AT] = "60s";
	sweep_start(&sweep, o->argv, plan);
	run_until(is_tapped(o), ORDEAL_HEAPTAP_MS);
	kill(sweep.run.pid, SIGKILL);
	sweep_wait(&sweep, ORDEAL_HEAPTAP_MS);
	snprintf(where, sizeof(where), "%s, main killed, %s", o->target->name, sweep_text(&sweep));
	victim_prove_alive(&o->victim);
	if (sweep.hit)
		ordeal_recover(o, where);
	ordeal_check(o, where);
	ordeal_check_trace(o, false);
	*ret_calls = sweep.calls[plan->role];
	sweep_deinit(&sweep);
	return sweep.hit;
}

static void rest_killed(const struct ordeal_target *target, enum sweep_role role)
{
	rescue_sweep(target,
		(struct sweep_plan){.action = SWEEP_KILL_ALL, .role = role, .orphans = true},
		POINTS, rest_killed_at);
}

/* Acts at each write into the target: slots, the stub, the restored bytes. */
static void each_write(enum sweep_action action, int error, bool orphans, once_fn *once)
{
	rescue_sweep(&threaded,
		(struct sweep_plan){.action = action,
			.value = error,
			.role = SWEEP_ANY,
			.orphans = orphans,
			.number = SYS_pwrite64},
		POINTS_ALL, once);
}

HT_TEST(rest_killed_as_the_guardian_writes)
{
	each_write(SWEEP_KILL_ALL, 0, true, rest_killed_at);
}

HT_TEST(guardian_killed_as_it_detaches)
{
	rest_killed(&threaded, SWEEP_GUARDIAN);
}

HT_TEST(its_worker_and_all_killed)
{
	rest_killed(&computing, SWEEP_WORKER);
}

HT_TEST(rest_killed_as_it_detaches_in_a_storm)
{
	rest_killed(&storm, SWEEP_ANY);
}

/* --- recover -----------------------------------------------------------------------------------
 */

static void abandon(struct ordeal *o)
{
	struct tap tap;
	tap_start(&tap, o->victim.pid, (const char *[]){"--symbolize", "later", NULL});
	tap_wait_any(&tap);
	tap_abandon(&tap);
	/* Wait: a worker that is still in a system call holds heaptap's lock. */
	run_until(tap_guardian_is_done(o->victim.pid), ORDEAL_HEAPTAP_MS);
	unlink(tap.trace);
}

static void recover_the_rest(struct ordeal *o, const char *where)
{
	const char *const argv[] = {run_built("heaptap"), "recover", "-p", o->pid, NULL};
	char *err;
	int status = run_program(argv, ORDEAL_HEAPTAP_MS, NULL, &err);
	ck_assert_msg(status == 0, "%s: another recover ended with %d: %s", where, status, err);
	free(err);
	ordeal_check(o, where);
}

/* If recover reports success, the target must equal its snapshot. */
static bool recover_hit_at(struct ordeal *o, const struct sweep_plan *plan, uint64_t *ret_calls)
{
	const char *const argv[] = {run_built("heaptap"), "recover", "-p", o->pid, NULL};
	struct sweep sweep;
	char where[600];
	abandon(o);
	sweep_start(&sweep, argv, plan);
	int status = sweep_wait(&sweep, ORDEAL_HEAPTAP_MS);
	char *err = run_err(&sweep.run);
	snprintf(where, sizeof(where), "%s, recover, %s: %d, %.300s", o->target->name,
		sweep_text(&sweep), status, err);
	free(err);
	if (getenv("VERBOSE"))
		fprintf(stderr, "%s\n", where);
	victim_prove_alive(&o->victim);
	ck_assert_msg(status <= STATUS_MAX || plan->action == SWEEP_KILL_ALL, "%s", where);
	ck_assert_msg(status == 0 || plan->action != SWEEP_COUNT, "%s", where);
	if (status == 0)
		ordeal_check(o, where);
	recover_the_rest(o, where);
	*ret_calls = sweep.calls[plan->role];
	sweep_deinit(&sweep);
	return sweep.hit;
}

HT_TEST(recover_killed_threaded)
{
	rescue_sweep(&threaded, (struct sweep_plan){.action = SWEEP_KILL_ALL, .role = SWEEP_ANY},
		POINTS, recover_hit_at);
}

HT_TEST(recover_killed_computing)
{
	rescue_sweep(&computing,
		(struct sweep_plan){.action = SWEEP_KILL_ALL, .role = SWEEP_WORKER}, POINTS,
		recover_hit_at);
}

HT_TEST(recover_killed_as_it_writes)
{
	each_write(SWEEP_KILL_ALL, 0, false, recover_hit_at);
}

HT_TEST(recover_cannot_write)
{
	each_write(SWEEP_FAIL, EIO, false, recover_hit_at);
}

/* From main's first call on: how the dynamic linker handles failures is not tested. */
static void recover_fails(const struct ordeal_target *target, int error)
{
	rescue_sweep(target,
		(struct sweep_plan){.action = SWEEP_FAIL,
			.role = SWEEP_ANY,
			.value = error,
			.from = SYS_rt_sigprocmask},
		POINTS_FAILING, recover_hit_at);
}

HT_TEST(recover_fails_threaded)
{
	recover_fails(&threaded, EPERM);
	recover_fails(&threaded, EINTR);
}

HT_TEST(recover_fails_computing)
{
	recover_fails(&computing, ENOMEM);
	recover_fails(&computing, EIO);
	recover_fails(&computing, ESRCH);
}

/* --- cleanup -----------------------------------------------------------------------------------
 */

static void order(struct ordeal *o, const char *command)
{
	free(victim_ask(&o->victim, command, ORDEAL_HEAPTAP_MS));
}

/* Leaves a jump page that the program no longer needs. */
static void leave_tombstone(struct ordeal *o)
{
	struct tap tap;
	tap_start(&tap, o->victim.pid,
		(const char *[]){"--symbolize", "later", "--linger", "0", NULL});
	tap_wait_on(&tap, "/escape");
	order(o, "take");
	json_decref(tap_stop(&tap, 0));
	order(o, "use heap");
	order(o, "forget");
	unlink(tap.trace);
}

static int care(struct ordeal *o, const char *command, const char *where)
{
	HT_FREED char *err;
	int status =
		run_program((const char *[]){run_built("heaptap"), command, "-p", o->pid, NULL},
			ORDEAL_HEAPTAP_MS, NULL, &err);
	ck_assert_msg(status == 0 || status == TOMBSTONE, "%s: %s then ended with %d: %s", where,
		command, status, err);
	return status;
}

static void clean_the_rest(struct ordeal *o, const char *where)
{
	ck_assert_msg(care(o, "cleanup", where) == 0, "%s: the page stays", where);
	ordeal_check(o, where);
	order(o, "take");
	order(o, "use heap");
	order(o, "forget");
}

/* cleanup killed with its worker may leave a stub in the program's code; recover restores it. */
static bool cleanup_hit_at(struct ordeal *o, const struct sweep_plan *plan, uint64_t *ret_calls)
{
	const char *const argv[] = {run_built("heaptap"), "cleanup", "-p", o->pid, NULL};
	struct sweep sweep;
	char where[600];
	leave_tombstone(o);
	sweep_start(&sweep, argv, plan);
	int status = sweep_wait(&sweep, ORDEAL_HEAPTAP_MS);
	char *err = run_err(&sweep.run);
	snprintf(where, sizeof(where), "cleanup, %s: %d, %.300s", sweep_text(&sweep), status, err);
	free(err);
	if (getenv("VERBOSE"))
		fprintf(stderr, "%s\n", where);
	victim_prove_alive(&o->victim);
	ck_assert_msg(status <= STATUS_MAX || plan->action != SWEEP_FAIL, "%s", where);
	ck_assert_msg(status == 0 || plan->action != SWEEP_COUNT, "%s", where);
	if (status == 0)
		ordeal_check(o, where);
	if (plan->action == SWEEP_KILL_ALL)
		care(o, "recover", where);
	clean_the_rest(o, where);
	*ret_calls = sweep.calls[plan->role];
	sweep_deinit(&sweep);
	return sweep.hit;
}

/* Sweeps the calls after cleanup found the page unused and began to remove it. */
static void cleanup_sweep(enum sweep_action action, enum sweep_role role, long number)
{
	rescue_sweep(&escaped,
		(struct sweep_plan){.action = action,
			.role = role,
			.value = EPERM,
			.from_guardian = true,
			.number = number},
		number ? POINTS_ALL : POINTS_FAILING, cleanup_hit_at);
}

HT_TEST(cleanup_killed)
{
	cleanup_sweep(SWEEP_KILL_ALL, SWEEP_ANY, 0);
}

HT_TEST(cleanup_killed_as_it_writes)
{
	cleanup_sweep(SWEEP_KILL_ALL, SWEEP_ANY, SYS_pwrite64);
	cleanup_sweep(SWEEP_KILL_MAIN, SWEEP_ANY, SYS_pwrite64);
}

HT_TEST(cleanup_fails)
{
	cleanup_sweep(SWEEP_FAIL, SWEEP_ANY, 0);
}

HT_SUITE("integration/sweep_rescue")
