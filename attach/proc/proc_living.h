/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of a process, read through a living thread. When the main thread has ended and others run
 * on, /proc/PID/maps, mem, exe, fd and the like are empty; those under task/TID of a living thread
 * are not.
 */
#pragma once

#include "attach/proc/proc_file.h"

/* Path of the file `name` of the process, relative to dir_fd: below task/TID of a living thread if
 * the main thread has ended. */
HT_MUST_CHECK
struct ht_err *proc_file_path(const struct proc *proc, const char *name, char ret[PROC_PATH_BYTES]);
/* Has `name` moved since proc_file_path returned `path`, because the thread in that path ended?
 * The contents read there may be empty: read again. */
bool proc_file_moved(const struct proc *proc, const char *name, const char *path);
/* As proc_file_read, for the file `name` of the process through a living thread. */
HT_MUST_CHECK
struct ht_err *proc_file_read_living(
	const struct proc *proc, const char *name, size_t max, char **ret, size_t *ret_length);

/* Reads the small text file /proc/PID/`name`. `*ret` is malloc'd and ends with a NUL. HT_ERR_FORMAT
 * beyond 1 MiB; HT_ERR_SYS with ENOENT: the kernel has no such file. */
HT_MUST_CHECK
struct ht_err *proc_text(const struct proc *proc, const char *name, char **ret);
/* The soft limit that /proc/PID/limits calls `name`, such as "Max file size"; UINT64_MAX: unlimited
 * or unknown. */
uint64_t proc_limit(const struct proc *proc, const char *name);

/* Values of the auxiliary vector that the kernel gave the program at its start; 0: unknown. */
struct proc_auxv {
	raddr_t phdr, entry; /* of the program, or of a dynamic linker that was started as one */
	raddr_t base;	     /* the dynamic linker's load address */
	raddr_t vdso;
	raddr_t random; /* address of 16 random bytes */
};

HT_MUST_CHECK
struct ht_err *proc_auxv_read(const struct proc *proc, struct proc_auxv *ret);
/* Target of the link /proc/PID/`name` (exe, fd/3). `*ret` is malloc'd. */
HT_MUST_CHECK
struct ht_err *proc_link(const struct proc *proc, const char *name, char **ret);
