/* SPDX-License-Identifier: Apache-2.0
 *
 * Helper processes that heaptap forks: connected by a socket, heard and reaped by a deadline.
 */
#pragma once

#include <sys/types.h>

#include "format/base.h"
#include "format/err.h"

/* As fork(2), with a pair of SOCK_SEQPACKET sockets: returns in both processes. `*ret_pid` is 0 in
 * the child; `*ret_fd` is the caller's end. On an error, which names `what`, there is no child. */
HT_MUST_CHECK
struct ht_err *helper_fork(const char *what, pid_t *ret_pid, int *ret_fd);

/* Waits until `fd` is readable or closed; false at the deadline. */
bool helper_wait_readable(int fd, uint64_t deadline_mono_ns);

/* Waits for the end of child `pid` and reaps it; false at the deadline. True also if there is no
 * such child. */
bool helper_reap_by(pid_t pid, uint64_t deadline_mono_ns);

/* Waits for the end of child `pid` and returns its status as waitpid(2); -1: there is no such
 * child. */
int helper_reap(pid_t pid);
