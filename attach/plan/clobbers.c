/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/plan/clobbers.h"

/* A jump through a register or a table may stay within the function. A call through a TLS
 * descriptor (-mtls-dialect=gnu2) changes only the registers that the compiler knows, and the
 * descriptor's address may come from anywhere: a call that may be one does not count. */
static enum codewalk_answer visit(void *context, const struct codewalk_instruction *instruction)
{
	(void)context;
	if (instruction->kind == CODEWALK_SYSTEM)
		return CODEWALK_LEAVE;
	bool unseen = instruction->kind == CODEWALK_CALL && !instruction->direct &&
		      !instruction->through_descriptor;
	return unseen || instruction->through_word ? CODEWALK_FOUND : CODEWALK_FOLLOW;
}

bool clobbers_all(codewalk_read *read, void *context, raddr_t entry)
{
	const struct codewalk walk = {.read = read, .read_context = context, .visit = visit};
	return codewalk_run(&walk, entry) == CODEWALK_HIT;
}
