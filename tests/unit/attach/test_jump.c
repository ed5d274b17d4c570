/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/inject/jump.h"

#include "tests/support/ht_check.h"

#define AT 0x555555555000ull

HT_TEST(a_distance_leads_both_ways)
{
	const uint8_t ahead[JUMP_BYTES] = {0, 0x10, 0, 0, 0}, back[] = {0, 0xfb, 0xff, 0xff, 0xff};
	ck_assert_uint_eq(jump_target(AT, ahead), AT + JUMP_BYTES + 0x10);
	ck_assert_uint_eq(jump_target(AT, back), AT);
}

HT_TEST(a_jump_is_told_by_opcode_and_distance)
{
	uint8_t code[JUMP_BYTES] = {JUMP_OPCODE, 0x10, 0x20, 0, 0};
	raddr_t to = AT + JUMP_BYTES + 0x2010;
	ck_assert(jump_leads(AT, code, to));
	ck_assert(!jump_leads(AT, code, to + 1));
	ck_assert(!jump_leads(AT + 1, code, to));
	code[2] = 0xcc; /* a breakpoint */
	ck_assert(jump_leads(AT, code, to));
	code[2] = 0x21;
	ck_assert(!jump_leads(AT, code, to));
	code[2] = 0x20;
	code[0] = 0xcc;
	ck_assert(!jump_leads(AT, code, to));
}

HT_SUITE("attach/inject/jump")
