/* SPDX-License-Identifier: Apache-2.0
 *
 * Who runs first on a busy machine. While a thread of the target is held or waited for, each turn
 * that we wait for a processor is one that it waits too. Best effort: without the privilege the
 * process only gets short, early turns. Never in real time: we poll, and the threads that are to
 * come to a stop have to run.
 */
#pragma once

#include <sched.h>
#include <stdbool.h>
#include <sys/types.h>

/* Before what other programs compute. Returns what priority_restore takes. */
int priority_raise(void);
void priority_restore(int before);

/*
 * Moves us to a core, if we may run there, and binds us to none. False: we are elsewhere. Two
 * that only ever wait for each other do that best on one: who wakes the other gives it the core as
 * it goes to sleep, and it waits for no turn of who computes on another.
 */
bool priority_move(int core);
/* A child of ours, forked with the cores that we may use, waits in priority_move for a turn, which
 * it may never get: a thread in real time may have that core. It is to run on another, if there is
 * one. Nothing happens to one that does not wait so. */
void priority_spare(pid_t pid);

/* Where a process of ours was allowed to run. */
struct priority_cores {
	bool known;
	cpu_set_t set;
};

/*
 * A process of ours that we wait for gets no turn, while we do: it is to run on the core that we
 * are on, until priority_send_back. Linux 6.18 was seen to leave all of a core waiting, for
 * seconds, behind a group of another session (autogroup), while another core was idle.
 */
struct priority_cores priority_bring(pid_t pid);
void priority_send_back(pid_t pid, const struct priority_cores *before);
