/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/plan/operators.h"

#include "attach/memory/memory.h"
#include "attach/plan/callees.h"

#define OPERATOR_MAX   4096u /* bytes of its code */
#define OPERATOR_STEPS 4u    /* longest chain of operators that call each other */

struct seen {
	const struct survey *survey;
	operators_is_hooked *is_hooked;
	const struct entries *entries;
};

static bool is_seen(void *context, raddr_t addr, bool is_word)
{
	const struct seen *seen = context;
	const struct coverage *coverage = &seen->survey->coverage;
	if (is_word && ht_err_drop(memory_read_u64(&seen->survey->proc, addr, &addr)))
		return false;
	if (seen->is_hooked(seen->entries, addr))
		return true;
	for (size_t i = 0; i < coverage->count; i++)
		if (coverage->function[i].native->addr == addr && coverage->function[i].at_entry)
			return true;
	return false;
}

static bool calls_seen(struct seen *seen, const struct native *native)
{
	const struct proc *proc = &seen->survey->proc;
	uint8_t code[OPERATOR_MAX];
	size_t got = 0;
	if (!native->bytes || native->bytes > sizeof(code))
		return false;
	ht_err_free(memory_read_some(proc, native->addr, code, native->bytes, &got));
	return got == native->bytes &&
	       callees_any(code, native->addr, native->bytes, is_seen, seen);
}

void operators_settle(
	struct survey *survey, operators_is_hooked *is_hooked, const struct entries *entries)
{
	struct seen seen = {survey, is_hooked, entries};
	struct coverage *coverage = &survey->coverage;
	for (unsigned step = 0; step < OPERATOR_STEPS; step++)
		for (size_t i = 0; i < coverage->count; i++) {
			struct coverage_function *function = &coverage->function[i];
			if (function->native->role != FAMILY_UNSEEN || function->at_entry ||
				!calls_seen(&seen, function->native))
				continue;
			coverage->places -= function->places;
			function->places = 0;
			function->at_entry = true;
		}
}
