/* SPDX-License-Identifier: Apache-2.0
 *
 * Descriptors of the target, taken over without its help.
 */
#pragma once

#include "attach/target/proc.h"

/* A duplicate of the target's descriptor `fd`, close-on-exec and owned by the caller; -1 with errno
 * when there is none (EBADF) or we may not. `tid`: a living thread, needed where the main thread
 * has ended. */
int descriptor_take(const struct proc *proc, pid_t tid, int fd);

/* Has the thread `tid` the descriptors that its process has, and not a table of its own
 * (unshare(2), CLONE_FILES)? True where the kernel does not tell. */
HT_MUST_CHECK
struct ht_err *descriptor_has_table(const struct proc *proc, pid_t tid, bool *ret);

/* Does the socket `fd` of the target end its waits by itself? `option`: SO_RCVTIMEO or SO_SNDTIMEO.
 * False also for what is no socket. */
bool descriptor_has_timeout(const struct proc *proc, pid_t tid, int fd, int option);
