/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns on a busy machine. While heaptap holds a thread of the target or waits for one, the target
 * loses every turn that heaptap waits for. Best effort: without the privilege, heaptap only gets
 * short, early turns. Never real time: heaptap polls, and the threads that it waits for must run.
 */
#pragma once

#include <sched.h>
#include <stdbool.h>
#include <sys/types.h>

/* Lets this process run before others that compute. Returns the argument for priority_restore. */
int priority_raise(void);
void priority_restore(int before);

/* Moves this process to a core if it may run there, and then allows all its cores again. False: it
 * runs elsewhere. Two processes that only wait for each other do that best on one core: the waker
 * gives the core up as it goes to sleep, and neither waits for the turn of a third. */
bool priority_move(int core);
/* Helps a child of ours that waits in priority_move for a turn that may never come, since a
 * real-time thread may have the core: moves it to another core, if there is one. Does nothing to a
 * child that does not wait there. */
void priority_spare(pid_t pid);

/* The cores that a process was allowed to run on. */
struct priority_cores {
	bool known;
	cpu_set_t set;
};

/* Moves a process of ours, for which we wait, to our own core until priority_send_back. Linux 6.18
 * was seen to leave every process of one core waiting for seconds behind a group of another session
 * (autogroup), while another core was idle. */
struct priority_cores priority_bring(pid_t pid);
void priority_send_back(pid_t pid, const struct priority_cores *before);
