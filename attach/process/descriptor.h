/* SPDX-License-Identifier: Apache-2.0
 *
 * Takes over descriptors of the target without its help.
 */
#pragma once

#include "attach/proc/proc.h"
#include "attach/proc/proc_tids.h"

/* Duplicates the target's descriptor `fd`. The caller owns the result, which is close-on-exec; -1
 * with errno: EBADF if there is no such descriptor, EPERM without the right. `tid`: a living
 * thread, needed if the main thread has ended. */
int descriptor_take(const struct proc *proc, pid_t tid, int fd);
/* As descriptor_take, in the table of the living thread `tid`. Before Linux 6.9 in that of the
 * process. */
int descriptor_take_of(const struct proc *proc, pid_t tid, int fd);

/* Does thread `tid` use the descriptor table of thread `other` (0: of its process), rather than one
 * of its own (unshare(2), CLONE_FILES)? If the kernel does not tell, true only if `tid` is `other`,
 * or `other` is 0. */
HT_MUST_CHECK
struct ht_err *descriptor_has_table(const struct proc *proc, pid_t tid, pid_t other, bool *ret);

/* Lists one thread for each descriptor table other than the process's. If the kernel does not tell
 * which threads have one, lists all threads but one. Free with proc_tids_deinit. */
HT_MUST_CHECK
struct ht_err *descriptor_tables(const struct proc *proc, struct proc_tids *ret);

/* Does a wait on the target's socket or terminal `fd` end by itself (SO_RCVTIMEO, SO_SNDTIMEO,
 * VTIME)? `option`: SO_RCVTIMEO or SO_SNDTIMEO. False for any other file. */
bool descriptor_has_timeout(const struct proc *proc, pid_t tid, int fd, int option);

/* May a read of `fd` take some bytes and then wait for more (SO_RCVLOWAT, VMIN)? */
bool descriptor_gathers(const struct proc *proc, pid_t tid, int fd);

/* May the kernel take part of a short write to `fd` and then wait? Network streams and terminals
 * do; true for every device. */
bool descriptor_takes_parts(const struct proc *proc, pid_t tid, int fd);
