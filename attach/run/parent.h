/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap as the parent of the command that it records: to the process that started it, heaptap
 * behaves like the command.
 */
#pragma once

#include "attach/steer/options.h"
#include "attach/run/launch.h"

/* Forks the command, which keeps the descriptors and signal settings that heaptap has inherited;
 * heaptap gives up its own (inherited_leave_descriptors, inherited_parent_signals). Call
 * launch_deinit also after an error. */
HT_MUST_CHECK
struct ht_err *parent_fork(char *const argv[], struct launch *ret);

/* Returns the functions by which a session handles the command, which waits, or runs already; sets
 * launch->late. `launch` is their context. `follows`: if the command becomes another program,
 * heaptap records that program, too. */
struct session_child parent_child(struct launch *launch, bool follows);

/* Waits for the command's end. The caller has blocked the signals of inherited_ending_signals;
 * those that a process sends to heaptap are passed on to the command. If the command is stopped in
 * the terminal's foreground, heaptap stops, too. */
void parent_wait(struct launch *launch);

/* The exit status that a shell shows for the command: its own, or 128 + the signal that ended
 * it. */
int parent_status(const struct launch *launch);
/* Ends this process by the signal that has ended the command. Returns if no signal did, or if the
 * signal does not end this process. */
void parent_end_alike(const struct launch *launch);
