/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes that a program forks for one task: what they keep of it, and their end.
 */
#pragma once

#include <sys/types.h>

#include "format/base.h"
#include "format/err.h"

/* As fork(2). The kernel sends `death_signal` to the child when this process ends; if it has ended
 * already, the child exits with status 1. */
pid_t helper_fork(int death_signal);

/* As fork(2), with a pair of SOCK_SEQPACKET sockets: returns in both processes. `*ret_pid` is 0 in
 * the child; `*ret_fd` is the caller's end. On an error, which names `what`, both are -1. */
HT_MUST_CHECK
struct ht_err *helper_fork_pair(const char *what, pid_t *ret_pid, int *ret_fd);

/* Starts the program of this process anew, with no signal blocked. `is_silent`: /dev/null for the
 * standard streams, whose readers must not wait for it. 0: not possible. */
pid_t helper_spawn_self(char *const argv[], bool is_silent);

/* --- in the child --- */

/* Closes all descriptors but these, which get sorted; negative ones stand for none. False: some may
 * still be open. */
HT_MUST_CHECK
bool helper_close_all_but(int *kept, size_t count);

/* Replaces a descriptor by /dev/null; nothing happens where that cannot be opened. */
void helper_silence(int fd);

/* Before exec: no signal is blocked, and those that heaptap ignores have their default actions:
 * SIGPIPE, SIGALRM, SIGXFSZ. */
void helper_reset_signals(void);

/* --- in the parent --- */

/* Waits for the end of child `pid` and returns its status as waitpid(2); -1: there is no such
 * child. */
int helper_wait(pid_t pid);

/* True if child `pid` has ended, with its status as helper_wait returns it. Does not wait. */
bool helper_has_ended(pid_t pid, int *ret_status);

/* Waits for the end of child `pid`: looks each millisecond, `patience_ns` long, so that time in
 * which this process is stopped does not count. False: it goes on. True also if there is no such
 * child. */
bool helper_ends_within(pid_t pid, uint64_t patience_ns);
