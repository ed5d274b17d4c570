/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap as the parent of the command that it records: behaves as the command would, whatever
 * heaptap itself does meanwhile.
 */
#pragma once

#include "attach/steer/options.h"
#include "attach/run/launch.h"

/* Forks the command, and leaves to it what heaptap was given: descriptors, the terminal's signals.
 * `ret` is to be deinitialised (launch_deinit) also after an error. */
HT_MUST_CHECK
struct ht_err *parent_fork(char *const argv[], struct launch *ret);

/* The functions by which a session handles the command, which waits, or runs already; `launch` is
 * their context. `follows`: if the command becomes another program, that is recorded, too. */
struct session_child parent_child(struct launch *launch, bool follows);

/* Waits for the command's end. The signals of inherited_ending_signals, which must be blocked, are
 * passed on to the command where a process has sent them. */
void parent_wait(struct launch *launch);

/* The exit status that a shell shows for the command's end: its own, or 128 + its signal. */
int parent_status(const struct launch *launch);
/* Ends this process by the signal that has ended the command; returns where it was none, or does
 * not end us. */
void parent_end_alike(const struct launch *launch);
