/* SPDX-License-Identifier: Apache-2.0
 *
 * Corrects or refuses what heaptap inherits from the process that starts it, before anything else
 * is done: descriptors, signals, limits.
 */
#pragma once

#include <signal.h>

#include "format/err.h"

/* Opens those of the descriptors 0, 1 and 2 that are closed, so that no file of heaptap's own gets
 * such a number and receives what is printed. A stand-in can neither be read nor written. */
HT_MUST_CHECK
struct ht_err *inherited_descriptors(void);

/* In a child that is about to exec another program: closes the stand-ins again. */
void inherited_give_back_descriptors(void);

/*
 * For heaptap as the parent of a forked command: standard input becomes /dev/null, standard output
 * becomes standard error, and all other descriptors but `keep_fd` are closed. The command's input
 * and output belong to the command: a process that waits for the end of a pipe must not wait for
 * heaptap's end.
 */
HT_MUST_CHECK
struct ht_err *inherited_leave_descriptors(int keep_fd);

/* The signals that end a capture: SIGINT, SIGTERM, and SIGHUP unless heaptap was started with
 * SIGHUP ignored (nohup). SIGINT ends a capture even if it was ignored: a script's shell ignores
 * SIGINT for the commands that it starts in the background, and may stop a capture by SIGINT. */
void inherited_ending_signals(sigset_t *ret);
/* Returns a non-blocking signalfd for these signals; -1 with errno. */
int inherited_open_signals(void);

/* For a capture: blocks the signals that end and steer it, lets children be waited for, and makes
 * writing fail instead of killing heaptap. */
void inherited_signals(void);

/* As inherited_signals, for heaptap as a command's parent: nothing that the terminal sends ends
 * heaptap. */
void inherited_parent_signals(void);

/* For commands that change a target: HT_ERR_REFUSED if descriptors, address space, data or stack
 * could run out while they do. Raises the soft limits of descriptors and of the stack. */
HT_MUST_CHECK
struct ht_err *inherited_check_room(void);
