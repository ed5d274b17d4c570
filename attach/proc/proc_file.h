/* SPDX-License-Identifier: Apache-2.0
 *
 * Files below /proc/PID, as the parts of proc share them. Not for other users.
 */
#pragma once

#include "attach/proc/proc.h"

#define PROC_PATH_BYTES 128u

/* The path, relative to dir_fd, where `name` of the process is found: below task/TID of a living
 * thread when the main thread has ended. */
HT_MUST_CHECK
struct ht_err *proc_file_path(const struct proc *proc, const char *name, char ret[PROC_PATH_BYTES]);
/* Has the place of `name` changed since proc_file_path gave `path`, because the thread it led
 * through ended? What was read there may then be empty: do it again. */
bool proc_file_moved(const struct proc *proc, const char *name, const char *path);
/* The whole content of `path` (relative to dir_fd), malloc'd, with a NUL behind its *ret_length
 * bytes (may be NULL); HT_ERR_FORMAT beyond `max` bytes. */
HT_MUST_CHECK
struct ht_err *proc_file_read(
	const struct proc *proc, const char *path, size_t max, char **ret, size_t *ret_length);
/* The same by name, through a living thread. */
HT_MUST_CHECK
struct ht_err *proc_file_read_living(
	const struct proc *proc, const char *name, size_t max, char **ret, size_t *ret_length);
/* Is there a file `path` below `dir_fd`? One look that finds none proves nothing: it takes two. */
HT_MUST_CHECK
struct ht_err *proc_file_exists(const struct proc *proc, int dir_fd, const char *path, bool *ret);
/* The error for a failed access to `name`: HT_ERR_TARGET_GONE when that is why. */
HT_MUST_CHECK
struct ht_err *proc_file_failed(const struct proc *proc, const char *name, int sys);

/* The status of the task that /proc/PID is, alive or not, and the process it belongs to. */
HT_MUST_CHECK
struct ht_err *proc_status_leader(
	const struct proc *proc, struct proc_status *ret, pid_t *ret_tgid);
