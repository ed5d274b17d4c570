/* SPDX-License-Identifier: Apache-2.0
 *
 * Descriptors of the target, taken over without its help.
 */
#pragma once

#include "attach/proc/proc.h"
#include "attach/proc/proc_tids.h"

/* A duplicate of the target's descriptor `fd`, close-on-exec and owned by the caller; -1 with errno
 * when there is none (EBADF) or we may not. `tid`: a living thread, needed where the main thread
 * has ended. */
int descriptor_take(const struct proc *proc, pid_t tid, int fd);
/* The same of what the living thread `tid` has under that number; before Linux 6.9, which cannot
 * tell, of what the process has. */
int descriptor_take_of(const struct proc *proc, pid_t tid, int fd);

/*
 * Has the thread `tid` the descriptors that thread `other` has (0: its process), and not a table of
 * its own (unshare(2), CLONE_FILES)? Where the kernel does not tell: yes if it is `other`, or that
 * is 0.
 */
HT_MUST_CHECK
struct ht_err *descriptor_has_table(const struct proc *proc, pid_t tid, pid_t other, bool *ret);

/* One thread for each table of descriptors but the process's; where the kernel does not tell which
 * have one, all threads. Give up with proc_tids_deinit. */
HT_MUST_CHECK
struct ht_err *descriptor_tables(const struct proc *proc, struct proc_tids *ret);

/* Does the socket or terminal (VTIME) `fd` of the target end its waits by itself? `option`:
 * SO_RCVTIMEO or SO_SNDTIMEO. False also for what is neither. */
bool descriptor_has_timeout(const struct proc *proc, pid_t tid, int fd, int option);

/* May a read of `fd` take some bytes and wait for more (SO_RCVLOWAT, VMIN)? */
bool descriptor_gathers(const struct proc *proc, pid_t tid, int fd);

/* May the kernel take some bytes of a short write to `fd`, and wait before it takes the others? A
 * stream of the network does, and a terminal: true for any device. */
bool descriptor_takes_parts(const struct proc *proc, pid_t tid, int fd);
