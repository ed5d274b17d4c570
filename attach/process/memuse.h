/* SPDX-License-Identifier: Apache-2.0
 *
 * How much memory a process uses, as the kernel counts it: resident pages by kind, page faults, its
 * control group. Asked ten times a second while a process is recorded, so the files stay open.
 */
#pragma once

#include "attach/proc/proc.h"
#include "format/memory.h"

struct memuse {
	const struct proc *proc;
	int status_fd, stat_fd;	 /* of the process; -1: not readable */
	int cgroup_fd, limit_fd; /* of the group with the least limit; -1: none is seen */
	uint64_t next_groups_ns; /* a process may change its group: when to look again */
};

/* `proc` must live as long. A file that cannot be opened leaves its figures unknown. */
void memuse_open(struct memuse *memuse, const struct proc *proc);
void memuse_close(struct memuse *memuse); /* accepts a closed one */
/* Reads all figures; those that are not known stay as they are in `ret`. False: the process has no
 * memory any more, or another program's (exec): `ret` is undefined. */
bool memuse_read(struct memuse *memuse, uint64_t now_mono_ns, struct memory *ret);

/* For memuse_read, and tests: the figures in the text of /proc/PID/status, and of stat. False: the
 * process has no memory. */
bool memuse_parse_status(const char *text, struct memory *ret);
void memuse_parse_stat(const char *text, struct memory *ret);
