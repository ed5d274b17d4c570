/* SPDX-License-Identifier: Apache-2.0
 *
 * Files below /proc/PID.
 */
#pragma once

#include "attach/proc/proc.h"

#define PROC_PATH_BYTES 128u

/* Reads all of `path` (relative to dir_fd). `*ret` is malloc'd and ends with a NUL behind its
 * `*ret_length` bytes (`ret_length` may be NULL). HT_ERR_FORMAT beyond `max` bytes. */
HT_MUST_CHECK
struct ht_err *proc_file_read(
	const struct proc *proc, const char *path, size_t max, char **ret, size_t *ret_length);
/* Does `path` exist below `dir_fd`? Looks twice before it says no: a single look that finds nothing
 * proves nothing. */
HT_MUST_CHECK
struct ht_err *proc_file_exists(const struct proc *proc, int dir_fd, const char *path, bool *ret);
/* The error for an access to `name` that failed with errno `sys`: HT_ERR_TARGET_GONE if the process
 * has ended. */
HT_MUST_CHECK
struct ht_err *proc_file_failed(const struct proc *proc, const char *name, int sys);
/* Reads the short text file `path` (relative to `dir_fd`), or as much of it as fits, into `ret` and
 * ends it with a NUL. Returns the bytes read; -1 with errno and an empty text on failure. */
ssize_t proc_file_short(int dir_fd, const char *path, char *ret, size_t bytes);
/* As proc_file_short for a file `comm`, without the newline at its end. False: it cannot be
 * read. */
bool proc_file_comm(int dir_fd, const char *path, char ret[64]);
/* Returns the number, in base `base`, that follows the first `key` in a text of /proc; `missing` if
 * there is no such key or number. For a status file let `key` begin with the newline before it: the
 * kernel escapes newlines in Name. */
uint64_t proc_file_number(const char *text, const char *key, int base, uint64_t missing);
