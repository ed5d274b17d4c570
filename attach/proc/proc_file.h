/* SPDX-License-Identifier: Apache-2.0
 *
 * Files below /proc/PID.
 */
#pragma once

#include "attach/proc/proc.h"

#define PROC_PATH_BYTES 128u

/* The whole content of `path` (relative to dir_fd), malloc'd, with a NUL behind its *ret_length
 * bytes (may be NULL); HT_ERR_FORMAT beyond `max` bytes. */
HT_MUST_CHECK
struct ht_err *proc_file_read(
	const struct proc *proc, const char *path, size_t max, char **ret, size_t *ret_length);
/* Is there a file `path` below `dir_fd`? One look that finds none proves nothing: it takes two. */
HT_MUST_CHECK
struct ht_err *proc_file_exists(const struct proc *proc, int dir_fd, const char *path, bool *ret);
/* The error for a failed access to `name`: HT_ERR_TARGET_GONE when that is why. */
HT_MUST_CHECK
struct ht_err *proc_file_failed(const struct proc *proc, const char *name, int sys);
/* Reads the short text file `path` (relative to `dir_fd`) into `ret`, NUL-terminated: as much of it
 * as fits. Returns the bytes read, or -1 with errno and an empty text. */
ssize_t proc_file_short(int dir_fd, const char *path, char *ret, size_t bytes);
