/* SPDX-License-Identifier: Apache-2.0
 *
 * Gets processor time sooner on a busy machine: while heaptap holds a thread of the target or waits
 * for one, the target loses the time in which heaptap waits for a processor. Best effort: without
 * the privilege (CAP_SYS_NICE), heaptap only asks for short time slices, which the kernel gives
 * earlier. Never uses real-time scheduling: heaptap polls, and the threads that it waits for must
 * run.
 */
#pragma once

#include <sched.h>
#include <stdbool.h>
#include <sys/types.h>

/* Lets this process run before others that compute, and sets its timer slack to 1 ns. Returns the
 * argument for priority_restore, which restores only the nice value. */
int priority_raise(void);
void priority_restore(int before);

/* Moves this process to `core` if it may run there, and then allows all its cores again. False: it
 * runs on another core. Two processes that only wait for each other do so best on one core: the
 * process that wakes the other gives up the core as it goes to sleep, and neither waits for a third
 * process. */
bool priority_move(int core);
/* Helps a child of this process that waits in priority_move for a core, perhaps for ever, since a
 * real-time thread may use that core: moves the child to another core, if there is one, and allows
 * it all cores of this process. Does nothing if the child may already use the same cores as this
 * process. */
void priority_spare(pid_t pid);

/* The cores that a process was allowed to run on. */
struct priority_cores {
	bool known;
	cpu_set_t set;
};

/* Moves a process of heaptap, for which this process waits, to this process's core until
 * priority_send_back. Linux 6.18 was seen to leave every process of one core waiting for seconds
 * behind a group of another session (autogroup), while another core was idle. */
struct priority_cores priority_bring(pid_t pid);
void priority_send_back(pid_t pid, const struct priority_cores *before);
