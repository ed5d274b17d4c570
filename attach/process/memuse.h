/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory use of a process as the kernel counts it: resident pages by kind, page faults, its control
 * group. Read ten times a second during a window, so the files stay open.
 */
#pragma once

#include "attach/proc/proc.h"
#include "format/memory.h"

struct memuse {
	const struct proc *proc;
	int status_fd, stat_fd;	 /* of the process; -1: unreadable */
	int cgroup_fd, limit_fd; /* of the group with the lowest limit; -1: none is visible */
	uint64_t next_groups_ns; /* when to look for the groups again: a process may change them */
};

/* `proc` must outlive `memuse`. A file that cannot be opened leaves its figures unknown. */
void memuse_open(struct memuse *memuse, const struct proc *proc);
void memuse_close(struct memuse *memuse); /* accepts a closed one */
/* Reads all figures; unknown ones stay as they are in `ret`. False: the process has no memory any
 * more, or another program's (exec); `ret` is undefined then. */
bool memuse_read(struct memuse *memuse, uint64_t now_mono_ns, struct memory *ret);

/* For memuse_read and tests: parse the text of /proc/PID/status, or of stat. False: the process has
 * no memory. */
bool memuse_parse_status(const char *text, struct memory *ret);
void memuse_parse_stat(const char *text, struct memory *ret);
