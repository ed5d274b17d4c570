/* SPDX-License-Identifier: Apache-2.0
 *
 * What heaptap inherits from whoever starts it, put right or refused before anything else is done:
 * descriptors, signals, limits.
 */
#pragma once

#include <signal.h>

#include "format/err.h"

/* From here on 0, 1 and 2 are open: no file of heaptap's own can get such a number, and what is
 * printed goes nowhere else. A stand-in can neither be read nor written. */
HT_MUST_CHECK
struct ht_err *start_descriptors(void);

/* In a child that is to become another program: closes those stand-ins again. */
void start_give_back_descriptors(void);

/* For heaptap as the parent of a command that has been forked: standard input is nothing, standard
 * output is standard error, and all others but `keep_fd` are closed. What the command reads and
 * writes is its own: who waits for the end of a pipe must not wait for ours. */
HT_MUST_CHECK
struct ht_err *start_leave_descriptors(int keep_fd);

/* The signals that end a capture: SIGINT, SIGTERM, and SIGHUP unless heaptap was started with it
 * ignored (nohup). An ignored SIGINT still ends it: a script's shell ignores SIGINT for each
 * command that it starts in the background, and stops a capture by it. */
void start_ending_signals(sigset_t *ret);
/* A signalfd for them that does not block; -1 with errno. */
int start_open_signals(void);

/* For a capture: the signals that end and steer it are blocked, children can be waited for, and
 * writing fails rather than kills. */
void start_signals(void);

/* The same for heaptap as a command's parent: nothing that the terminal sends ends it. */
void start_parent_signals(void);

/* For what changes a target: HT_ERR_REFUSED when descriptors, address space, data or stack could
 * run short in the middle of it. Raises the soft limits of descriptors and of the stack. */
HT_MUST_CHECK
struct ht_err *start_check_room(void);
