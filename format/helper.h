/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes that a program forks for one task: descriptors and signals that they keep, and waiting
 * for their end.
 */
#pragma once

#include <sys/types.h>

#include "format/base.h"
#include "format/err.h"

/* As fork(2). The kernel sends `death_signal` to the child when the calling thread ends; if the
 * parent has ended already, the child exits with status 1. */
pid_t helper_fork(int death_signal);

/* As fork(2), with a pair of SOCK_SEQPACKET sockets: returns in both processes. `*ret_pid` is 0 in
 * the child; `*ret_fd` is the calling process's end of the pair. If it fails, the error names
 * `what`, and both are -1. */
HT_MUST_CHECK
struct ht_err *helper_fork_pair(const char *what, pid_t *ret_pid, int *ret_fd);

/* Starts the program of this process anew, with no signal blocked. `is_silent`: its standard
 * streams are /dev/null, so that readers of this process's streams do not wait for its end. Returns
 * its PID; 0: it could not be started. */
pid_t helper_spawn_self(char *const argv[], bool is_silent);

/* --- in the child --- */

/* Closes all descriptors except `kept`; sorts `kept`, and ignores negative numbers in it. False:
 * other descriptors may still be open. */
HT_MUST_CHECK
bool helper_close_all_but(int *kept, size_t count);

/* Replaces a descriptor by /dev/null; does nothing if /dev/null cannot be opened. */
void helper_silence(int fd);

/* Before exec: no signal is blocked, and those that heaptap ignores have their default actions:
 * SIGPIPE, SIGALRM, SIGXFSZ. */
void helper_reset_signals(void);

/* --- in the parent --- */

/* Waits for the end of child `pid` and returns its status as waitpid(2); -1: there is no such
 * child. */
int helper_wait(pid_t pid);

/* True if child `pid` has ended, with its status as helper_wait returns it; also true, with -1, if
 * there is no such child. Does not wait. */
bool helper_has_ended(pid_t pid, int *ret_status);

/* Waits for the end of child `pid`, at most `patience_ns`. It counts waits of one millisecond, so
 * that time in which this process is stopped does not count. False: the child still runs. True also
 * if there is no such child. */
bool helper_ends_within(pid_t pid, uint64_t patience_ns);
