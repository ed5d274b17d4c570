/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of a process, which are read through a living thread: when the main thread has ended and
 * others go on, /proc/PID/maps, mem, exe, fd and the like are empty; those under task/TID of a
 * living thread are not.
 */
#pragma once

#include "attach/proc/proc_file.h"

/* The path, relative to dir_fd, where `name` of the process is found: below task/TID of a living
 * thread when the main thread has ended. */
HT_MUST_CHECK
struct ht_err *proc_file_path(const struct proc *proc, const char *name, char ret[PROC_PATH_BYTES]);
/* Has the place of `name` changed since proc_file_path gave `path`, because the thread it led
 * through ended? What was read there may then be empty: do it again. */
bool proc_file_moved(const struct proc *proc, const char *name, const char *path);
/* The same by name, through a living thread. */
HT_MUST_CHECK
struct ht_err *proc_file_read_living(
	const struct proc *proc, const char *name, size_t max, char **ret, size_t *ret_length);

/* Reads the small text file /proc/PID/`name` into a malloc'd, NUL-terminated string; HT_ERR_FORMAT
 * beyond 1 MiB. HT_ERR_SYS with ENOENT: the kernel has no such file. */
HT_MUST_CHECK
struct ht_err *proc_text(const struct proc *proc, const char *name, char **ret);
/* The soft limit that /proc/PID/limits calls `name`, such as "Max file size"; UINT64_MAX when it is
 * unlimited or not told. */
uint64_t proc_limit(const struct proc *proc, const char *name);

/* What the kernel told the program at its start; 0: not told. */
struct proc_auxv {
	raddr_t phdr, entry; /* of the program, or of a dynamic linker started as one */
	raddr_t base;	     /* the dynamic linker's load address */
	raddr_t vdso;
	raddr_t random; /* 16 bytes */
};

HT_MUST_CHECK
struct ht_err *proc_auxv_read(const struct proc *proc, struct proc_auxv *ret);
/* Target of the link /proc/PID/`name` (exe, fd/3), malloc'd. */
HT_MUST_CHECK
struct ht_err *proc_link(const struct proc *proc, const char *name, char **ret);
