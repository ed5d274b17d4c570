/* SPDX-License-Identifier: Apache-2.0
 *
 * Does the target profile its own heap now? An allocator that unwinds its caller's stack finds the
 * agent's frame there, for which it has no unwind table: its stacks would end at that frame.
 */
#pragma once

#include "attach/plan/survey.h"

#define OWNPROFILE_BYTES 300u

struct ownprofile {
	/* The allocator, its file, and what shows that its profiler is active; "": none is. */
	char active[OWNPROFILE_BYTES];
	/* The same for an allocator whose unwinder goes on by frame pointers: its stacks are cut
	 * only where the program has no frame pointers. */
	char unsure[OWNPROFILE_BYTES];
};

/* `starting`: the program has not run yet, so only its settings count. */
HT_MUST_CHECK
struct ht_err *ownprofile_find(const struct survey *survey, bool starting, struct ownprofile *ret);
/* As ownprofile_find, and HT_ERR_REFUSED if a profiler is active, unless `force`. */
HT_MUST_CHECK
struct ht_err *ownprofile_judge(
	const struct survey *survey, bool starting, bool force, struct ownprofile *ret);
