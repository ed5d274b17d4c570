/* SPDX-License-Identifier: Apache-2.0
 *
 * Prepares what heaptap inherits from the process that starts it (descriptors, signals, limits), or
 * refuses to go on with it.
 */
#pragma once

#include <signal.h>

#include "format/err.h"

/* Opens those of the descriptors 0, 1 and 2 that are closed, as stand-ins that can neither be read
 * nor written: otherwise a file of heaptap's own would get such a number, and receive what heaptap
 * prints. */
HT_MUST_CHECK
struct ht_err *inherited_descriptors(void);

/* In a child that is about to exec another program: closes the stand-ins again. */
void inherited_give_back_descriptors(void);

/*
 * For heaptap as the parent of a forked command: standard input becomes /dev/null, standard output
 * becomes standard error, and all other descriptors but `keep_fd` are closed. The command's input
 * and output belong to the command: a process that reads the command's output to the end must not
 * wait for heaptap's end.
 */
HT_MUST_CHECK
struct ht_err *inherited_leave_descriptors(int keep_fd);

/* The signals that end a capture: SIGINT, SIGTERM, and SIGHUP unless heaptap was started with
 * SIGHUP ignored (nohup). SIGINT ends a capture even if it was ignored: a script's shell ignores
 * SIGINT for the commands that it starts in the background, and may stop a capture by SIGINT. */
void inherited_ending_signals(sigset_t *ret);
/* Returns a non-blocking signalfd for the signals of inherited_ending_signals; -1 with errno. */
int inherited_open_signals(void);

/* For a capture: blocks the signals of inherited_ending_signals, SIGUSR1 and SIGUSR2; sets SIGCHLD
 * to its default, so that children can be waited for; ignores SIGPIPE and SIGXFSZ, so that a write
 * fails instead of killing heaptap. */
void inherited_signals(void);

/* As inherited_signals, for heaptap as a command's parent: also ignores SIGQUIT, so that no key of
 * the terminal ends heaptap. */
void inherited_parent_signals(void);

/* For commands that change a target: HT_ERR_REFUSED if heaptap's descriptors, address space, data
 * or stack could run out meanwhile, or as procfs_check. Raises the soft limit of descriptors to the
 * hard one, and that of the stack to at least 1 MiB. */
HT_MUST_CHECK
struct ht_err *inherited_check_room(void);
