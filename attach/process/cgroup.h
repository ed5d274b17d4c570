/* SPDX-License-Identifier: Apache-2.0
 *
 * The control groups of a process, of either version, as directories that can be read. What cannot
 * be seen from here (the groups of a process outside of our own cgroup namespace) is left out.
 */
#pragma once

#include "attach/proc/proc.h"

/* One mounted hierarchy: the group `root` of it is seen at `point`. */
struct cgroup_hierarchy {
	bool unified; /* version 2, with all controllers */
	char root[4096], point[4096];
};

/* Does this line of mountinfo(5) mount a hierarchy that `controller` ("memory") belongs to? */
bool cgroup_parse_mount(const char *line, const char *controller, struct cgroup_hierarchy *ret);
/* Where the process's group in that hierarchy begins in `groups`, the lines
 * "ID:CONTROLLERS:PATH" of its cgroup file; NULL: nowhere. `ret_length`: of the path. */
const char *cgroup_parse_path(const struct cgroup_hierarchy *hierarchy, const char *groups,
	const char *controller, size_t *ret_length);

/* Calls `visit` with the directory of each group that the process is in and of all groups above. */
void cgroup_each(const struct proc *proc, const char *controller,
	void (*visit)(void *context, bool unified, const char *directory), void *context);

/* The number in a file of a group, or behind `key` in it; `missing` when there is none ("max"). */
uint64_t cgroup_number(const char *directory, const char *file, const char *key, uint64_t missing);

/* Does none of its threads get on until somebody thaws its group? */
bool cgroup_is_frozen(const struct proc *proc);
