/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/helper/priority.h"

#include <linux/sched.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "format/base.h"

#define NICE_FIRST (-20)
#define TURN_NS	   100000u

/* The argument of sched_setattr(2), which the libc of Debian 12 lacks. */
struct attributes {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

/* Since Linux 6.12 every process may ask for short time slices, and gets them earlier. */
static void ask_for_short_turns(void)
{
	struct attributes attributes = {.size = sizeof(attributes),
		.policy = SCHED_NORMAL,
		.nice = getpriority(PRIO_PROCESS, 0),
		.runtime = TURN_NS};
	/* A process started as a batch job stays one. */
	if (syscall(SYS_sched_getscheduler, 0) == SCHED_NORMAL)
		(void)syscall(SYS_sched_setattr, 0, &attributes, 0);
}

int priority_raise(void)
{
	int before = getpriority(PRIO_PROCESS, 0);
	prctl(PR_SET_TIMERSLACK, 1);
	setpriority(PRIO_PROCESS, 0, NICE_FIRST);
	ask_for_short_turns();
	return before;
}

void priority_restore(int before)
{
	setpriority(PRIO_PROCESS, 0, before);
}

/* Allows a process (0: this one) only one core. `ret_before`: the cores that it was allowed
 * before. */
static bool confine(pid_t pid, int core, cpu_set_t *ret_before)
{
	cpu_set_t there;
	if (core < 0 || core >= CPU_SETSIZE ||
		sched_getaffinity(pid, sizeof(*ret_before), ret_before) < 0)
		return false;
	CPU_ZERO(&there);
	CPU_SET(core, &there);
	return sched_setaffinity(pid, sizeof(there), &there) == 0;
}

bool priority_move(int core)
{
	cpu_set_t allowed;
	if (sched_getaffinity(0, sizeof(allowed), &allowed) < 0 || core < 0 ||
		core >= CPU_SETSIZE || !CPU_ISSET(core, &allowed) || !confine(0, core, &allowed))
		return false;
	bool is_there = sched_getcpu() == core; /* false if priority_spare has moved us */
	(void)sched_setaffinity(0, sizeof(allowed), &allowed);
	return is_there;
}

void priority_spare(pid_t pid)
{
	cpu_set_t ours, its, rest;
	if (sched_getaffinity(0, sizeof(ours), &ours) < 0 ||
		sched_getaffinity(pid, sizeof(its), &its) < 0 || CPU_EQUAL(&ours, &its))
		return;
	/* A process that may still use the core it waits for would go on waiting there: leave that
	 * core out. */
	CPU_AND(&rest, &ours, &its);
	CPU_XOR(&rest, &rest, &ours);
	if (CPU_COUNT(&rest) > 0)
		(void)sched_setaffinity(pid, sizeof(rest), &rest);
	(void)sched_setaffinity(pid, sizeof(ours), &ours);
}

struct priority_cores priority_bring(pid_t pid)
{
	struct priority_cores before = {.known = false};
	before.known = confine(pid, sched_getcpu(), &before.set);
	return before;
}

void priority_send_back(pid_t pid, const struct priority_cores *before)
{
	if (before->known)
		(void)sched_setaffinity(pid, sizeof(before->set), &before->set);
}
