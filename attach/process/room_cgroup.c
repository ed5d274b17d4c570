/* SPDX-License-Identifier: Apache-2.0
 *
 * How much memory the control groups of a process, of either version, still let it use. Groups that
 * cannot be seen are no limit.
 */
#include "attach/process/cgroup.h"
#include "attach/process/room.h"

/* What the two versions call the same. */
struct names {
	const char *limit, *used, *reclaimable;
};

static const struct names unified_names = {"memory.max", "memory.current", "\ninactive_file "};
static const struct names legacy_names = {
	"memory.limit_in_bytes", "memory.usage_in_bytes", "\ntotal_inactive_file "};

/* The least of the group's own room and that of all groups above it. */
static void take_room(void *context, bool unified, const char *directory)
{
	const struct names *names = unified ? &unified_names : &legacy_names;
	uint64_t *least = context;
	uint64_t limit = cgroup_number(directory, names->limit, NULL, UINT64_MAX);
	/* The older version says "no limit" by a number near the largest. */
	if (limit >= INT64_MAX / 2)
		return;
	uint64_t used = cgroup_number(directory, names->used, NULL, 0);
	uint64_t cached = cgroup_number(directory, "memory.stat", names->reclaimable, 0);
	used -= cached < used ? cached : used;
	uint64_t room = limit > used ? limit - used : 0;
	if (room < *least)
		*least = room;
}

uint64_t room_of_cgroups(const struct proc *proc)
{
	uint64_t least = UINT64_MAX;
	cgroup_each(proc, "memory", take_room, &least);
	return least;
}
