/* SPDX-License-Identifier: Apache-2.0
 *
 * Targets with the highest priority, with the lowest, or on one core with heaptap: heaptap
 * attaches, leaves their scheduling unchanged, and never deadlocks with a thread that waits for it.
 */
#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/child.h"
#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/report.h"
#include "tests/support/tap.h"
#include "tests/support/victim.h"

#define ANSWER_MS 60000
#define PERIOD_NS 10000000

#ifndef SCHED_DEADLINE
#define SCHED_DEADLINE 6
#endif

struct setting {
	int policy, priority, nice;
	const char *autogroup; /* nice value of the autogroup; NULL: not set */
	bool on_one_core;      /* with heaptap */
	bool apart;	       /* the target on one core, heaptap on the others, if there are two */
	bool beside_a_hog;     /* another process computes on that core */
	bool slow;	       /* only with HEAPTAP_SLOW_SCHEDULE=1 */
};

static cpu_set_t one_core(void)
{
	cpu_set_t cores, one;
	int cpu = 0;
	ck_assert_int_eq(sched_getaffinity(0, sizeof(cores), &cores), 0);
	while (!CPU_ISSET(cpu, &cores))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	return one;
}

static cpu_set_t all_but(const cpu_set_t *one)
{
	cpu_set_t all, rest;
	ck_assert_int_eq(sched_getaffinity(0, sizeof(all), &all), 0);
	CPU_XOR(&rest, &all, one);
	return CPU_COUNT(&rest) ? rest : all;
}

/* Sets SCHED_DEADLINE with half of each period, on any core, because the kernel refuses an
 * affinity. Leaves the main thread, which only answers commands. False: the kernel refuses. */
static bool set_deadline(pid_t tid, bool is_main)
{
	const struct {
		uint32_t bytes, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime_ns, deadline_ns, period_ns;
	} attr = {.bytes = sizeof(attr),
		.policy = SCHED_DEADLINE,
		.runtime_ns = PERIOD_NS / 2,
		.deadline_ns = PERIOD_NS,
		.period_ns = PERIOD_NS};
	return is_main || !syscall(SYS_sched_setattr, tid, &attr, 0);
}

/* The main thread gets a higher priority than the others, so that it always answers commands. */
static void set_thread(pid_t tid, bool is_main, const struct setting *setting, const cpu_set_t *one)
{
	bool first = setting->policy == SCHED_FIFO || setting->policy == SCHED_RR;
	struct sched_param param = {.sched_priority = first ? setting->priority + is_main : 0};
	if (setting->policy == SCHED_DEADLINE) {
		if (!set_deadline(tid, is_main))
			printf("skipped: schedule: no thread may have a deadline here\n");
		return;
	}
	ck_assert_int_eq(setpriority(PRIO_PROCESS, (id_t)tid, setting->nice), 0);
	if (setting->on_one_core || setting->apart)
		ck_assert_int_eq(sched_setaffinity(tid, sizeof(*one), one), 0);
	ck_assert_int_eq(sched_setscheduler(tid, setting->policy, &param), 0);
}

static void set_threads(pid_t pid, const struct setting *setting, const cpu_set_t *one)
{
	char path[64];
	set_thread(pid, true, setting, one);
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	DIR *task = opendir(path);
	ck_assert_ptr_nonnull(task);
	for (struct dirent *entry; (entry = readdir(task));) {
		pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
		if (tid > 0 && tid != pid)
			set_thread(tid, false, setting, one);
	}
	closedir(task);
}

static void compute(const void *arg)
{
	sched_setaffinity(0, sizeof(cpu_set_t), arg);
	child_ready(0);
	for (volatile unsigned long turns = 0;; turns++)
		;
}

static void start_tap(struct tap *tap, const struct victim *victim, const cpu_set_t *cores)
{
	cpu_set_t all;
	ck_assert_int_eq(sched_getaffinity(0, sizeof(all), &all), 0);
	if (cores)
		sched_setaffinity(0, sizeof(*cores), cores);
	tap_start(tap, victim->pid, (const char *[]){"--symbolize", "later", NULL});
	sched_setaffinity(0, sizeof(all), &all);
}

/* False: the kernel refuses, because sessions have no autogroups. */
static bool set_autogroup(pid_t pid, const char *nice)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/autogroup", pid);
	FILE *file = fopen(path, "w");
	if (!file)
		return false;
	bool written = fputs(nice, file) >= 0;
	return fclose(file) == 0 && written;
}

static void start_target(struct victim *victim, const struct setting *setting)
{
	const char *const alone[] = {
		"/usr/bin/setsid", run_built("tests/targets/busy"), "-t", "1", NULL};
	victim_start(victim, setting->autogroup ? alone : alone + 1);
	if (setting->autogroup && !set_autogroup(victim->pid, setting->autogroup))
		printf("skipped: schedule: a session has no scheduling group of its own here\n");
}

static void check(const struct setting *setting)
{
	struct victim victim;
	struct tap tap;
	struct child hog = {0};
	cpu_set_t one = one_core();
	if (setting->slow && !getenv("HEAPTAP_SLOW_SCHEDULE")) {
		printf("skipped: schedule: real_time_on_our_core: only with "
		       "HEAPTAP_SLOW_SCHEDULE=1\n");
		return;
	}
	start_target(&victim, setting);
	if (setting->beside_a_hog)
		hog = child_fork(compute, &one);
	set_threads(victim.pid, setting, &one);
	struct procsnap *before = procsnap_take(victim.pid, PROCSNAP_MASKS_CHANGE);
	cpu_set_t rest = all_but(&one);
	start_tap(&tap, &victim, setting->on_one_core ? &one : setting->apart ? &rest : NULL);
	tap_wait_on(&tap, "/busy");
	uint64_t rounds = report_count(&victim, "rounds");
	run_until(report_count(&victim, "rounds") > rounds, ANSWER_MS);
	json_t *attach = tap_stop(&tap, 0);
	tap_check_clean(attach);
	ck_assert_uint_gt(report_u64(attach, "events"), 0);
	json_decref(attach);
	procsnap_verify(before, victim.pid);
	if (setting->beside_a_hog)
		child_kill(&hog);
	victim_stop(&victim);
}

#define SETTING(name, ...)                                                                         \
	HT_TEST(name)                                                                              \
	{                                                                                          \
		check(&(struct setting){__VA_ARGS__});                                             \
	}

SETTING(real_time, .policy = SCHED_FIFO, .priority = 10, .apart = true)
SETTING(real_time_in_turns, .policy = SCHED_RR, .priority = 90, .apart = true)
SETTING(with_deadlines, .policy = SCHED_DEADLINE)
/* The kernel reserves 50 ms of each second for programs without real-time priority; heaptap and the
 * kernel's own workers share them. Attaching takes about 30 s. */
SETTING(real_time_on_our_core, .policy = SCHED_FIFO, .priority = 10, .on_one_core = true,
	.slow = true)
SETTING(when_nobody_else_runs, .policy = SCHED_IDLE, .on_one_core = true, .beside_a_hog = true)
SETTING(after_all_others, .nice = 19, .on_one_core = true, .beside_a_hog = true)
SETTING(before_all_others, .nice = -20, .on_one_core = true)
SETTING(in_batches, .policy = SCHED_BATCH, .nice = 5, .on_one_core = true)
SETTING(in_a_group, .autogroup = "19")

HT_SUITE("integration/schedule")
