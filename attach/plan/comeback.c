/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/plan/comeback.h"

struct function {
	raddr_t entry;
	size_t bytes, first;
};

static enum codewalk_answer visit(void *context, const struct codewalk_instruction *instruction)
{
	const struct function *function = context;
	uint64_t at = instruction->at - function->entry, to = instruction->to - function->entry;
	bool jumps = instruction->kind == CODEWALK_JUMP || instruction->kind == CODEWALK_BRANCH;

	if (jumps && instruction->direct)
		return at >= function->bytes && to > 0 && to < function->first ? CODEWALK_FOUND
									       : CODEWALK_FOLLOW;
	/* A call leads to another function. A call that ends the function does not return. */
	return at < function->bytes && at + instruction->bytes >= function->bytes ? CODEWALK_LEAVE
										  : CODEWALK_PASS;
}

bool comeback_to(codewalk_read *read, void *context, raddr_t entry, size_t bytes, size_t first)
{
	struct function function = {.entry = entry, .bytes = bytes, .first = first};
	const struct codewalk walk = {
		.read = read, .read_context = context, .visit = visit, .visit_context = &function};
	return codewalk_run(&walk, entry) != CODEWALK_SEEN;
}
