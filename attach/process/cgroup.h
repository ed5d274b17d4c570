/* SPDX-License-Identifier: Apache-2.0
 *
 * The control groups of a process, of version 1 and 2, as directories. Groups that cannot be seen
 * from here are left out: those of a process outside of our own cgroup namespace.
 */
#pragma once

#include "attach/proc/proc.h"

/* A mounted hierarchy: its group `root` appears at `point`. */
struct cgroup_hierarchy {
	bool unified; /* version 2, with all controllers */
	char root[4096], point[4096];
};

/* Does this line of mountinfo(5) mount a hierarchy with the controller `controller`, such as
 * "memory"? */
bool cgroup_parse_mount(const char *line, const char *controller, struct cgroup_hierarchy *ret);
/* Finds the path of the process's group in that hierarchy within `groups`, the
 * "ID:CONTROLLERS:PATH" lines of its cgroup file. Returns where the path begins, or NULL;
 * `*ret_length` is its length. */
const char *cgroup_parse_path(const struct cgroup_hierarchy *hierarchy, const char *groups,
	const char *controller, size_t *ret_length);

/* Calls `visit` with the directory of each group of the process and of all groups above it. */
void cgroup_each(const struct proc *proc, const char *controller,
	void (*visit)(void *context, bool unified, const char *directory), void *context);

/* Reads the number at the beginning of a file of a group, or the number behind `key` if that is not
 * NULL. Returns `missing` if there is no number there, as in "max". */
uint64_t cgroup_number(const char *directory, const char *file, const char *key, uint64_t missing);

/* Is the group frozen, so that no thread of the process runs until it is thawed? */
bool cgroup_is_frozen(const struct proc *proc);
