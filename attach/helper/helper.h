/* SPDX-License-Identifier: Apache-2.0
 *
 * A child process that heaptap forks: connected with it, heard and reaped within a time.
 */
#pragma once

#include <sys/types.h>

#include "format/base.h"
#include "format/err.h"

/* fork(2), with a pair of sockets (SOCK_SEQPACKET) between both: returns in both processes.
 * `*ret_pid` is 0 in the child; `*ret_fd` is the end of the process that it returns to. Errors name
 * `what` is forked, and only the parent gets them. */
HT_MUST_CHECK
struct ht_err *helper_fork(const char *what, pid_t *ret_pid, int *ret_fd);

/* Waits until `fd` can be read or has ended; false: not by the deadline. */
bool helper_is_heard_by(int fd, uint64_t deadline_mono_ns);

/* Waits for the end of a child, and takes its status from the kernel; false: it has not ended by
 * the deadline. True also when there is no such child. */
bool helper_is_reaped_by(pid_t pid, uint64_t deadline_mono_ns);

/* The same without a deadline; the status as of waitpid(2), -1: there is no such child. */
int helper_reap(pid_t pid);
