/* SPDX-License-Identifier: Apache-2.0
 *
 * At each system call of heaptap in turn, through attach, capture and detach: the target ends,
 * execs, forks, starts a program, or another process gets its PID. HEAPTAP_SWEEP: see
 * tests/support/sweep.h.
 */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/gotwords.h"
#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/sweep.h"
#include "tests/support/tmpdir.h"
#include "tests/support/tracefile.h"
#include "tests/support/victim.h"

#define HEAPTAP_MS 120000
#define ANSWER_MS  30000
#define REAP_MS	   300
#define STOPPED_MS 500
#define POINTS	   8 /* points of a sweep, unless HEAPTAP_SWEEP chooses others */
#define CHANGES	   (PROCSNAP_MASKS_CHANGE | PROCSNAP_SYSTEM_CALLED) /* of the target itself */

struct change {
	const char *name;
	const char *prepared; /* a command that the target gets before the attach; NULL: none */
	const char *command;  /* the command that makes the change; NULL: `signal` makes it */
	int signal;
	enum sweep_role role; /* whose calls are counted */
	bool ends;	      /* the change ends the target */
	bool becomes;	      /* the change is an exec of another program */
	bool again;	      /* another process gets the target's PID */
	bool returns;	      /* the target goes on unchanged afterwards */
	bool pauses;	      /* the target is stopped, and continued after STOPPED_MS */
};

static const struct change killed = {.name = "SIGKILL", .signal = SIGKILL, .ends = true};
static const struct change exits = {.name = "exit", .command = "exit 0", .ends = true};
static const struct change execs = {.name = "exec", .command = "exec", .becomes = true};
static const struct change execs_in_thread = {
	.name = "exec in a thread", .command = "exec-thread", .becomes = true};
static const struct change forks = {.name = "fork", .command = "fork"};
static const struct change forks_in_thread = {
	.name = "fork in a thread", .prepared = "forker", .signal = SIGUSR1, .role = SWEEP_WORKER};
static const struct change vforks = {.name = "vfork", .command = "vfork", .returns = true};
static const struct change spawns = {.name = "posix_spawn", .command = "spawn", .returns = true};
static const struct change daemonizes = {.name = "daemon", .command = "daemon", .ends = true};
static const struct change recycled = {
	.name = "recycled number", .signal = SIGKILL, .ends = true, .again = true};

static const struct change stops = {.name = "SIGSTOP", .signal = SIGSTOP, .pauses = true};

static char *target_path(void)
{
	return run_built("tests/targets/changer");
}

/* The results of all runs. */
struct outcome {
	unsigned statuses[6], reused; /* runs by exit status of heaptap; runs in which another
					 process got the target's PID */
};

struct changing {
	const struct change *change;
	struct victim victim, other;		/* `other` gets the PID of `victim` after its end */
	struct procsnap *before, *other_before; /* `before`: NULL if the victim ends or execs */
	bool reaped;
	pid_t child; /* a child that the victim has forked; 0: none */
	pthread_t waker;
	char pid[16], *trace;
	uint64_t calls;
};

/* The only child of the process, forked by any of its threads; 0: none. */
static pid_t child_of(pid_t parent)
{
	char path[300];
	pid_t child = 0;
	snprintf(path, sizeof(path), "/proc/%d/task", parent);
	DIR *dir = opendir(path);
	ck_assert_ptr_nonnull(dir);
	for (const struct dirent *entry; (entry = readdir(dir)) && !child;) {
		snprintf(path, sizeof(path), "/proc/%d/task/%s/children", parent, entry->d_name);
		FILE *file = fopen(path, "re");
		if (file && fscanf(file, "%d", &child) != 1)
			child = 0;
		if (file)
			fclose(file);
	}
	closedir(dir);
	return child;
}

/* False after REAP_MS: a traced thread must be reaped by its tracer first, and the worker that
 * traces it waits for this test. */
static bool reap(struct victim *victim)
{
	uint64_t end = run_now_ms() + REAP_MS;
	while (run_now_ms() < end) {
		if (waitpid(victim->pid, NULL, WNOHANG) == victim->pid)
			return true;
		run_pause();
	}
	return false;
}

/* Returns 0 after REAP_MS: heaptap may hold the thread that is to fork. */
static pid_t await_child(pid_t parent)
{
	uint64_t end = run_now_ms() + REAP_MS;
	pid_t child = 0;
	while (!child && run_now_ms() < end) {
		child = child_of(parent);
		run_pause();
	}
	return child;
}

static void *start_other(void *context)
{
	struct changing *c = context;
	victim_start_as(&c->other, c->victim.pid, (const char *[]){target_path(), NULL});
	c->other_before = procsnap_take(c->other.pid, 0);
	return NULL;
}

/* STOPPED_MS is longer than one step of heaptap, and shorter than heaptap's deadlines for a stop
 * and for the detach (10 s). */
static void *let_go_on(void *context)
{
	const struct changing *c = context;
	uint64_t end = run_now_ms() + STOPPED_MS;
	while (run_now_ms() < end)
		run_pause();
	kill(c->victim.pid, SIGCONT);
	return NULL;
}

static void change_now(void *context)
{
	pthread_t thread;
	struct changing *c = context;

	if (c->change->command)
		victim_send(&c->victim, c->change->command);
	else
		kill(c->victim.pid, c->change->signal);
	if (c->change == &forks_in_thread)
		c->child = await_child(c->victim.pid);
	if (c->change->pauses)
		ck_assert_int_eq(pthread_create(&c->waker, NULL, let_go_on, c), 0);
	if (!c->change->again)
		return;
	c->reaped = reap(&c->victim);
	if (!c->reaped)
		return;
	/* In another thread: the current one is the sweep's tracer, which waits for all of its
	 * children and expects only heaptap's processes. */
	ck_assert_int_eq(pthread_create(&thread, NULL, start_other, c), 0);
	pthread_join(thread, NULL);
}

/* --- judging ---------------------------------------------------------------------------------- */

static void check_trace(const struct changing *c, int status, const char *where)
{
	struct tracefile file;
	if (status == 3) {
		ck_assert_msg(access(c->trace, F_OK) != 0, "%s: 3, and a trace", where);
		return;
	}
	ck_assert_msg(access(c->trace, F_OK) == 0, "%s: %d, and no trace", where, status);
	tracefile_load(c->trace, &file);
	ck_assert_msg(file.complete && file.ended, "%s: the trace is not complete", where);
	enum rec_end_reason reason = REC_END_DURATION;
	if (status == 5)
		reason = c->change->becomes ? REC_END_TARGET_EXEC : REC_END_TARGET_EXIT;
	ck_assert_msg(file.end_reason == reason, "%s: status %d, reason %d", where, status,
		file.end_reason);
	tracefile_deinit(&file);
	unlink(c->trace);
}

static void check_nothing_left(pid_t pid, const char *where)
{
	char line[4400];
	snprintf(line, sizeof(line), "/proc/%d/maps", pid);
	FILE *maps = fopen(line, "re");
	ck_assert_msg(maps, "%s: process %d is gone", where, pid);
	while (fgets(line, sizeof(line), maps))
		ck_assert_msg(!strstr(line, "heaptap-"), "%s: %s", where, line);
	fclose(maps);
	for (int fd = 3; fd < 1024; fd++) {
		char link[128] = "";
		snprintf(line, sizeof(line), "/proc/%d/fd/%d", pid, fd);
		if (readlink(line, link, sizeof(link) - 1) > 0)
			ck_assert_msg(!strstr(link, "heaptap-") && strncmp(link, "socket:", 7),
				"%s: %s is %s", where, line, link);
	}
	ck_assert_msg(gotwords_tapped(pid, "", NULL) == 0, "%s: tapped slots", where);
}

/* Checks that a target that goes on equals its snapshot, then stops it. */
static void stop_unchanged(struct changing *c, const char *where)
{
	struct procsnap *now = procsnap_take(c->victim.pid, CHANGES);
	char *difference = procsnap_diff(c->before, now);
	ck_assert_msg(!difference[0], "%s: %.2000s", where, difference);
	free(difference);
	procsnap_destroy(now);
	procsnap_destroy(c->before);
	c->before = NULL;
	check_nothing_left(c->victim.pid, where);
	victim_stop(&c->victim);
}

static void check_child(pid_t child, const char *where)
{
	char path[64], comm[32] = "";
	check_nothing_left(child, where);
	snprintf(path, sizeof(path), "/proc/%d/comm", child);
	FILE *file = fopen(path, "re");
	ck_assert_msg(file && fgets(comm, sizeof(comm), file) && strncmp(comm, "WRONG", 5),
		"%s: child %d: %s", where, child, comm);
	fclose(file);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static pid_t answered_pid(struct changing *c)
{
	if (!c->change->command) {
		run_until(child_of(c->victim.pid), ANSWER_MS);
		return child_of(c->victim.pid);
	}
	HT_FREED char *answer = victim_line(&c->victim, ANSWER_MS);
	pid_t pid = (pid_t)strtol(answer, NULL, 10);
	return pid;
}

static void check_other(struct changing *c)
{
	if (!c->reaped) {
		waitpid(c->victim.pid, NULL, 0);
		return;
	}
	procsnap_verify(c->other_before, c->other.pid);
	victim_stop(&c->other);
}

/* Checks the target after heaptap has ended. */
static void check_target(struct changing *c, const char *where)
{
	if (!strncmp(c->change->name, "exec", 4)) {
		char *ready = victim_line(&c->victim, ANSWER_MS);
		ck_assert_msg(!strncmp(ready, "ready ", 6), "%s: %s", where, ready);
		free(ready);
		check_nothing_left(c->victim.pid, where);
		victim_stop(&c->victim);
	} else if (c->change->returns) {
		char *answer = victim_line(&c->victim, ANSWER_MS);
		ck_assert_msg(!strcmp(answer, "done"), "%s: %s", where, answer);
		free(answer);
		stop_unchanged(c, where);
	} else if (c->change->pauses) {
		victim_prove_alive(&c->victim);
		stop_unchanged(c, where);
	} else if (!c->change->ends) {
		check_child(answered_pid(c), where);
		stop_unchanged(c, where);
	} else if (c->change == &daemonizes) {
		pid_t child = answered_pid(c);
		victim_wait(&c->victim, ANSWER_MS);
		check_child(child, where);
	} else if (c->change->again) {
		check_other(c);
	} else {
		victim_wait(&c->victim, ANSWER_MS);
	}
}

/* --- the sweep -------------------------------------------------------------------------------- */

static void begin(struct changing *c, const struct change *change)
{
	*c = (struct changing){.change = change, .trace = tmpdir_path("change.htap")};
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	victim_start(&c->victim, (const char *[]){target_path(), NULL});
	snprintf(c->pid, sizeof(c->pid), "%d", c->victim.pid);
	if (change->prepared)
		free(victim_ask(&c->victim, change->prepared, ANSWER_MS));
	c->before = procsnap_take(c->victim.pid, CHANGES);
}

static int attach(struct changing *c, const struct sweep_plan *plan, struct sweep *sweep)
{
	const char *const argv[] = {run_built("heaptap"), "attach", "-p", c->pid, "-o", c->trace,
		"-d", "20ms", "--symbolize", "later", "--json", NULL};
	sweep_start(sweep, argv, plan);
	return sweep_wait(sweep, HEAPTAP_MS);
}

static uint64_t count_calls(const struct change *change)
{
	struct changing c;
	struct sweep sweep;
	begin(&c, change);
	int status = attach(&c, &(struct sweep_plan){.action = SWEEP_COUNT}, &sweep);
	ck_assert_int_eq(status, 0);
	stop_unchanged(&c, change->name);
	sweep_deinit(&sweep);
	unlink(c.trace);
	free(c.trace);
	return sweep.calls[change->role];
}

/* heaptap may always exit with 0. If the target ends or execs, 3 (target untouched) and 5 (target
 * ended) are allowed, too; if the target is stopped, 3. */
static bool is_allowed(const struct change *change, int status)
{
	return status == 0 || (change->pauses && status == 3) ||
	       ((change->ends || change->becomes) && (status == 3 || status == 5));
}

/* Makes the change at the call that `like` names. False: heaptap made no such call. */
static bool change_at(
	const struct change *change, const struct sweep_plan *like, struct outcome *outcome)
{
	struct changing c;
	struct sweep sweep;
	char where[512];
	struct sweep_plan plan = *like;
	begin(&c, change);
	plan.action = SWEEP_CALL;
	plan.call = change_now;
	plan.context = &c;
	int status = attach(&c, &plan, &sweep);
	if (sweep.hit && change->pauses)
		pthread_join(c.waker, NULL);
	snprintf(where, sizeof(where), "%s, %s", change->name, sweep_text(&sweep));
	char *err = run_err(&sweep.run);
	ck_assert_msg(is_allowed(change, status), "%s: status %d: %s", where, status, err);
	char *second = strchr(err, '\n');
	ck_assert_msg(status != 3 || !second || !second[1], "%s: %s", where, err);
	snprintf(where + strlen(where), sizeof(where) - strlen(where), ": %.200s", err);
	free(err);
	outcome->statuses[status]++;
	outcome->reused += c.reaped;
	if (sweep.hit) {
		check_trace(&c, status, where);
		check_target(&c, where);
	} else {
		unlink(c.trace);
		stop_unchanged(&c, where);
	}
	procsnap_drop(c.before);
	sweep_deinit(&sweep);
	free(c.trace);
	return sweep.hit;
}

static unsigned sweep_calls(const struct change *change, struct outcome *outcome)
{
	unsigned count = 0;
	uint64_t calls = count_calls(change);
	struct sweep_points points = sweep_points_of(change->name, calls, POINTS);
	struct sweep_plan plan = {.role = change->role, .at = points.first};
	for (; plan.at <= points.last; plan.at += points.stride) {
		bool hit = change_at(change, &plan, outcome);
		count += hit;
		/* The number of calls differs from attach to attach. */
		if (!hit && plan.at > calls)
			break;
	}
	for (plan.at = points.first / 2; !count && plan.at; plan.at /= 2)
		count += change_at(change, &plan, outcome);
	/* The first run may have polled long and so counted too many calls: count again. */
	if (count < points.count / 2) {
		uint64_t again = count_calls(change);
		calls = again < calls ? again : calls;
	}
	sweep_points_check(&points, calls, count);
	return count;
}

static unsigned sweep_places(const struct change *change, struct outcome *outcome)
{
	struct sweep_plan plan = {.role = change->role, .places = places_new(run_built("heaptap"))};
	unsigned count = 0;

	while (change_at(change, &plan, outcome))
		count++;
	places_destroy(plan.places);
	return count;
}

static void sweep_of(const struct change *change)
{
	struct outcome outcome = {0};
	const unsigned *statuses = outcome.statuses;
	unsigned count =
		places_wanted() ? sweep_places(change, &outcome) : sweep_calls(change, &outcome);
	printf("sweep: %s: %u times; heaptap ended with 0: %u, 3: %u, 5: %u\n", change->name, count,
		statuses[0], statuses[3], statuses[5]);
	/* A victim that a worker holds as it ends is not reaped before heaptap's next call, so its
	 * PID is not used again. In a small sample that may happen in every run. */
	ck_assert_msg(!change->again || count < POINTS / 2 || outcome.reused > 0,
		"no number was used again in %u runs", count);
}

HT_TEST(target_is_killed)
{
	sweep_of(&killed);
}

HT_TEST(target_exits)
{
	sweep_of(&exits);
}

HT_TEST(target_execs)
{
	sweep_of(&execs);
}

HT_TEST(target_execs_in_a_thread)
{
	sweep_of(&execs_in_thread);
}

HT_TEST(target_forks)
{
	sweep_of(&forks);
}

/* The sweep acts at calls of workers, which hold a thread or wait for its stub, so another thread
 * must fork. */
HT_TEST(target_forks_in_a_thread)
{
	sweep_of(&forks_in_thread);
}

HT_TEST(target_vforks)
{
	sweep_of(&vforks);
}

HT_TEST(target_spawns)
{
	sweep_of(&spawns);
}

HT_TEST(target_becomes_a_daemon)
{
	sweep_of(&daemonizes);
}

HT_TEST(target_stops_for_a_while)
{
	sweep_of(&stops);
}

HT_TEST(number_is_used_again)
{
	sweep_of(&recycled);
}

HT_SUITE("integration/change_sweep")
