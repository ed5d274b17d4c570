/* SPDX-License-Identifier: Apache-2.0
 *
 * The kept stack never makes the agent read outside the stack, even if the target has overwritten
 * the kept addresses.
 */
#include "agent/kept.h"

#include "tests/unit/agent/world.h"

#define WORDS 8u

static struct trace trace;
/* All words are 0, and so are the words that the links expect: a link that is read outside the
 * stack would hold, and the test would fail. */
static uint64_t memory[3 * WORDS];

static bool holds_at(int32_t at, uint64_t words)
{
	trace.link_at[0] = at;
	const struct trace_span span = {.hi = memory + 2 * WORDS, .words = words};
	return kept_link_holds(&trace, 0, trace_links_of(span));
}

HT_TEST(words_of_the_stack_hold)
{
	ck_assert(holds_at(-1, WORDS));
	ck_assert(holds_at(-(int32_t)WORDS, WORDS));
	trace.link_word[0] = 1;
	ck_assert(!holds_at(-1, WORDS));
	trace.link_word[0] = 0;
}

HT_TEST(words_beside_the_stack_do_not)
{
	ck_assert(!holds_at(-(int32_t)WORDS - 1, WORDS));
	ck_assert(!holds_at(0, WORDS));
	ck_assert(!holds_at(1, WORDS));
	ck_assert(!holds_at(INT32_MAX, WORDS));
	ck_assert(!holds_at(INT32_MIN, WORDS));
}

HT_TEST(a_stack_without_words_has_none)
{
	ck_assert(!holds_at(-1, 0));
	ck_assert(!holds_at(0, 0));
	ck_assert(!holds_at(1, 0));
	/* More words than links can name. */
	ck_assert(!holds_at(-1, (UINT64_C(1) << 32) + 1));
	ck_assert(!holds_at(0, UINT64_MAX));
}

HT_SUITE("agent/kept")
