/* SPDX-License-Identifier: Apache-2.0
 *
 * A process that gets no core is moved to the core on which heaptap runs, and back.
 */
#include "attach/helper/priority.h"

#include "tests/support/child.h"
#include "tests/support/ht_check.h"

HT_TEST(a_process_is_brought_and_sent_back)
{
	cpu_set_t ours, one, before, now;
	struct child child = child_fork(child_idle, NULL);
	ck_assert_int_eq(sched_getaffinity(0, sizeof(ours), &ours), 0);
	ck_assert_int_eq(sched_getaffinity(child.pid, sizeof(before), &before), 0);
	for (int core = 0; core < CPU_SETSIZE; core++) {
		if (!CPU_ISSET(core, &ours))
			continue;
		CPU_ZERO(&one);
		CPU_SET(core, &one);
		ck_assert_int_eq(sched_setaffinity(0, sizeof(one), &one), 0);
		struct priority_cores cores = priority_bring(child.pid);
		ck_assert_int_eq(sched_getaffinity(child.pid, sizeof(now), &now), 0);
		ck_assert(cores.known && CPU_EQUAL(&now, &one));
		priority_send_back(child.pid, &cores);
		ck_assert_int_eq(sched_getaffinity(child.pid, sizeof(now), &now), 0);
		ck_assert(CPU_EQUAL(&now, &before));
	}
	child_kill(&child);
}

HT_TEST(one_that_has_ended_is_left_alone)
{
	struct child child = child_fork(child_idle, NULL);
	child_kill(&child);
	struct priority_cores cores = priority_bring(child.pid);
	ck_assert(!cores.known);
	priority_send_back(child.pid, &cores);
}

HT_TEST(a_moved_process_may_use_all_cores)
{
	cpu_set_t ours, one, now;
	ck_assert_int_eq(sched_getaffinity(0, sizeof(ours), &ours), 0);
	for (int core = -1; core <= CPU_SETSIZE; core++) {
		bool may = core >= 0 && core < CPU_SETSIZE && CPU_ISSET(core, &ours);
		ck_assert(priority_move(core) == may);
		ck_assert_int_eq(sched_getaffinity(0, sizeof(now), &now), 0);
		ck_assert(CPU_EQUAL(&now, &ours));
	}
	/* Nor may it move to a core that its affinity excludes. */
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	ck_assert_int_eq(sched_setaffinity(0, sizeof(one), &one), 0);
	for (int core = 0; core < CPU_SETSIZE; core++)
		ck_assert(priority_move(core) == (bool)CPU_ISSET(core, &one));
	ck_assert_int_eq(sched_getaffinity(0, sizeof(now), &now), 0);
	ck_assert(CPU_EQUAL(&now, &one));
}

HT_SUITE("attach/priority")
