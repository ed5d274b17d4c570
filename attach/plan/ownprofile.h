/* SPDX-License-Identifier: Apache-2.0
 *
 * Does the target profile its own heap just now? An allocator that unwinds its caller's stack finds
 * the agent's frame there, for which it has no table: its own stacks would end at it.
 */
#pragma once

#include "attach/plan/survey.h"

#define OWNPROFILE_BYTES 300u

struct ownprofile {
	/* Which allocator, in which file, and by what it is known to be active; "": none is. */
	char active[OWNPROFILE_BYTES];
	/* The same of one whose unwinder goes on by frame pointers: its stacks are cut only where
	 * the program has none. */
	char unsure[OWNPROFILE_BYTES];
};

/* `starting`: the program has not run yet, so its settings alone tell. */
HT_MUST_CHECK
struct ht_err *ownprofile_find(const struct survey *survey, bool starting, struct ownprofile *ret);
/* The same, and HT_ERR_REFUSED where one is active, unless `force`. */
HT_MUST_CHECK
struct ht_err *ownprofile_judge(
	const struct survey *survey, bool starting, bool force, struct ownprofile *ret);
