/* SPDX-License-Identifier: Apache-2.0
 *
 * Which function a small function passes its calls on to.
 */
#include "attach/plan/callees.h"

#include "tests/support/ht_check.h"

#define ENTRY 0x555555560010ull

#ifdef HEAPTAP_ZYDIS

struct code {
	uint8_t code[16];
	size_t bytes;
};

/* callees sees through a function that only passes its call on, not through one that might do
 * something itself. */
HT_TEST(function_that_passes_its_work_on)
{
	static const struct {
		struct code f;
		raddr_t to;
		bool changed;
	} cases[] = {
		/* mov %rsi,%rax ; jo +5 ; jmp ENTRY + 256 ; ret: it does not pass on each call. */
		{{{0x48, 0x89, 0xf0, 0x70, 5, 0xe9, 0xf6, 0, 0, 0, 0xc3}, 11}, ENTRY + 256, true},
		/* movl $12,%fs:(%rax) ; jmp: it has written to a thread variable. */
		{{{0x64, 0xc7, 0, 12, 0, 0, 0, 0xe9, 0xf4, 0, 0, 0}, 12}, ENTRY + 256, true},
		/* sub $16,%rdi ; jmp: it passes another block. */
		{{{0x48, 0x83, 0xef, 0x10, 0xe9, 0xf7, 0, 0, 0}, 9}, ENTRY + 256, true},
		/* mul %rsi: rdx changes, too. */
		{{{0x48, 0xf7, 0xe6, 0xe9, 0xf8, 0, 0, 0}, 8}, ENTRY + 256, true},
		/* test %rdi,%rdi ; jne ENTRY + 256 ; jmp ENTRY + 256: both lead to the same
		   function. */
		{{{0x48, 0x85, 0xff, 0x0f, 0x85, 0xf7, 0, 0, 0, 0xe9, 0xf2, 0, 0, 0}, 14},
			ENTRY + 256, false},
		/* xor %ecx,%ecx ; jmp: rcx is none of its arguments. */
		{{{0x31, 0xc9, 0xe9, 0xf9, 0, 0, 0}, 7}, ENTRY + 256, false},
		/* mov %rax,(%rdi) ; jmp: it has written to memory. */
		{{{0x48, 0x89, 0x07, 0xe9, 0xf8, 0, 0, 0}, 8}, 0, false},
		/* call ; jmp */
		{{{0xe8, 0, 1, 0, 0, 0xe9, 0xf6, 0, 0, 0}, 10}, 0, false},
		/* jmp *%rax */
		{{{0xff, 0xe0}, 2}, 0, false},
		/* jo ENTRY + 262 ; jmp ENTRY + 256: two functions */
		{{{0x0f, 0x80, 0, 1, 0, 0, 0xe9, 0xf5, 0, 0, 0}, 11}, 0, false},
		{{{0xc3}, 1}, 0, false},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(cases); i++) {
		bool same;
		raddr_t to = callees_sole(cases[i].f.code, ENTRY, cases[i].f.bytes, 3, &same);
		ck_assert_msg(to == cases[i].to, "%zu: %lx", i, (unsigned long)to);
		ck_assert_msg(!to || same == !cases[i].changed, "%zu: %d", i, same);
	}
}

static bool is_there(void *context, raddr_t addr, bool is_word)
{
	return !is_word && addr == *(raddr_t *)context;
}

static bool is_word_there(void *context, raddr_t addr, bool is_word)
{
	return is_word && addr == *(raddr_t *)context;
}

/* operator new has a loop and a call of malloc in it; operator delete is a jump. */
HT_TEST(callers_of_hooked_functions)
{
	/* call ENTRY + 256 ; ret */
	const uint8_t calls[] = {0xe8, 0xfb, 0, 0, 0, 0xc3};
	const uint8_t jumps[] = {0xe9, 0xfb, 0, 0, 0};
	const uint8_t neither[] = {0xff, 0xd0, 0xc3};
	raddr_t there = ENTRY + 256, elsewhere = ENTRY + 255;
	ck_assert(callees_any(calls, ENTRY, sizeof(calls), is_there, &there));
	ck_assert(callees_any(jumps, ENTRY, sizeof(jumps), is_there, &there));
	ck_assert(!callees_any(calls, ENTRY, sizeof(calls), is_there, &elsewhere));
	ck_assert(!callees_any(neither, ENTRY, sizeof(neither), is_there, &there));
	/* jmp *ENTRY+256(%rip) */
	const uint8_t through[] = {0xff, 0x25, 0xfa, 0, 0, 0};
	ck_assert(callees_any(through, ENTRY, sizeof(through), is_word_there, &there));
	ck_assert(!callees_any(through, ENTRY, sizeof(through), is_there, &there));
	/* The code ends within the call. */
	ck_assert(!callees_any(calls, ENTRY, 4, is_there, &there));
}

#else

HT_TEST(is_off)
{
	bool same;
	ck_assert_uint_eq(callees_sole(NULL, ENTRY, 0, 3, &same), 0);
}

#endif

HT_SUITE("attach/callees")
