/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/inject/comeback.h"

struct function {
	raddr_t entry;
	size_t bytes, first;
};

static enum codewalk_answer visit(void *context, const struct codewalk_instruction *instruction)
{
	const struct function *function = context;
	/* What is called is another function. */
	if (instruction->kind == CODEWALK_CALL || !instruction->direct)
		return CODEWALK_PASS;
	bool outside = instruction->at - function->entry >= function->bytes;
	uint64_t within = instruction->to - function->entry;
	return outside && within > 0 && within < function->first ? CODEWALK_FOUND : CODEWALK_FOLLOW;
}

bool comeback_to(codewalk_read *read, void *context, raddr_t entry, size_t bytes, size_t first)
{
	struct function function = {.entry = entry, .bytes = bytes, .first = first};
	return codewalk_run(&(struct codewalk){.read = read,
				    .read_context = context,
				    .visit = visit,
				    .visit_context = &function},
		entry);
}
