/* SPDX-License-Identifier: Apache-2.0
 *
 * The walk finds all callers and stops at the first unknown one. It reads no memory outside stacks
 * and tables, whatever these hold.
 */
#include "agent/walk.h"

#include "agent/rules.h"
#include "tests/unit/agent/simulate.h"

static uint64_t expected[SIM_DEPTH_MAX + 1];
static uint32_t expected_count;
static struct walk_start start;

static uint32_t walk(struct abi_slot *slot)
{
	return walk_plain(world_config, rules_snapshot(world_config), slot, &start);
}

static void check_frames(struct abi_slot *slot, uint32_t count)
{
	for (uint32_t i = 0; i < count && i < expected_count; i++)
		ck_assert_msg(slot->frames[i] == expected[i], "frame %u: %#lx, expected %#lx", i,
			slot->frames[i], expected[i]);
	ck_assert_uint_eq(count, expected_count);
}

static void check_trunc(const struct abi_slot *slot, int reason)
{
	for (int i = 0; i < ABI_TRUNC_COUNT; i++)
		ck_assert_uint_eq(slot->head.trunc[i], i == reason ? 1 : 0);
}

static uint32_t function_random(void)
{
	return SIM_FIRST + (uint32_t)sim_random(SIM_FUNCTIONS - SIM_FIRST);
}

/* A stack of random calls, some of them from signal handlers. */
static void calls_random(uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		if (sim_random(20) == 0)
			sim_signal(function_random());
		else
			sim_call(function_random());
	}
	expected_count = sim_hook(&start, expected);
}

HT_TEST(random_stacks)
{
	for (uint64_t seed = 1; seed <= 200; seed++) {
		sim_make(seed);
		calls_random(1 + (uint32_t)sim_random(100));
		struct abi_slot *slot = sim_slot();
		check_frames(slot, walk(slot)); /* tables */
		check_frames(slot, walk(slot)); /* cache */
		check_trunc(slot, -1);
		ck_assert_uint_eq(sys_fake.calls, 0);
	}
}

/* Stacks whose bounds are unknown, which the walk reads by copies. */
HT_TEST(foreign_stacks)
{
	for (uint64_t seed = 1; seed <= 200; seed++) {
		sim_make(seed);
		calls_random(1 + (uint32_t)sim_random(300));
		struct abi_slot *slot = sim_slot();
		slot->head.stack_hi = 0;
		check_frames(slot, walk(slot));
		check_trunc(slot, -1);
		ck_assert_uint_ge(sys_fake.calls, 2);
		ck_assert_uint_le(sys_fake.calls, 64);
	}
}

HT_TEST(foreign_stack_without_system_calls)
{
	sim_make(1);
	calls_random(10);
	struct abi_slot *slot = sim_slot();
	slot->head.bounds_incarnation = slot->head.incarnation + 1;
	world_config->flags = ABI_FLAG_NO_SYSCALL;
	expected_count = 1;
	check_frames(slot, walk(slot));
	check_trunc(slot, ABI_TRUNC_STACK);
	ck_assert_uint_eq(sys_fake.calls, 0);
}

/* A handler on an alternate stack interrupts the primary one. */
HT_TEST(alternate_stack)
{
	static _Alignas(HT_PAGE_BYTES) uint64_t other[1024];
	for (uint64_t seed = 1; seed <= 50; seed++) {
		sim_make(seed);
		sim_table->rule[SIM_FIRST] = abi_rule_make(ABI_RULE_RSP, 5, 2);
		sim_table->rule[SIM_FIRST + 1] = abi_rule_make(ABI_RULE_RBP, 2, 2);
		calls_random(20);
		struct abi_slot *slot = sim_slot();
		uint64_t pc = SIM_CODE_BASE + sim_running() * ABI_GRANULE_BYTES + 5;
		uint64_t *ucontext = &other[800];
		ucontext[15] = sim_fp;
		ucontext[20] = sim_sp;
		ucontext[21] = pc;
		sim_calls[sim_depth++] =
			(struct sim_call){pc | STEP_EXACT, sim_sp, sim_fp, SIM_TRAMPOLINE};
		sim_sp = (uint64_t)ucontext;
		sim_call(SIM_FIRST);
		sim_call(SIM_FIRST + 1);
		expected_count = sim_hook(&start, expected);
		sys_fake.readable = (const uint8_t *)other;
		sys_fake.readable_bytes = sizeof(other);
		check_frames(slot, walk(slot));
		check_trunc(slot, -1);
		ck_assert_uint_le(sys_fake.calls, 3);
	}
}

HT_TEST(no_snapshot)
{
	sim_make(1);
	calls_random(10);
	world_config->unwind = 0;
	struct abi_slot *slot = sim_slot();
	expected_count = 1;
	check_frames(slot, walk(slot));
	check_trunc(slot, ABI_TRUNC_NO_RULE);
}

HT_TEST(too_deep)
{
	sim_make(1);
	calls_random(100);
	struct abi_slot *slot = sim_slot();
	world_config->frames_max = expected_count;
	check_frames(slot, walk(slot));
	check_trunc(slot, -1);
	world_config->frames_max = expected_count = 50;
	check_frames(slot, walk(slot));
	check_trunc(slot, ABI_TRUNC_DEPTH);
}

HT_TEST(unknown_module)
{
	sim_make(1);
	sim_table->rule[SIM_FIRST] = abi_rule_make(ABI_RULE_RSP, 3, 0);
	sim_call(SIM_FIRST);
	sim_call(SIM_FIRST);
	sim_calls[1].caller_pc = *sim_word(sim_calls[1].caller_sp - 8) = 0x7f0000001234;
	sim_call(SIM_FIRST);
	expected_count = sim_hook(&start, expected);
	struct abi_slot *slot = sim_slot();
	/* A word in the place of a return address is a frame only if it points into code. */
	expected_count = 2;
	check_frames(slot, walk(slot));
	check_trunc(slot, ABI_TRUNC_NO_RULE);
	ck_assert_uint_eq(world_control->unknown_pcs, 1);
	ck_assert_uint_eq(world_control->unknown_pc, 0x7f0000001234);

	/* The hook's caller is code, whatever the tables say, since it made the call. */
	start.pc = expected[0] = 0x7f0000009999;
	expected_count = 1;
	check_frames(slot, walk(slot));
	ck_assert_uint_eq(world_control->unknown_pcs, 2);
}

HT_TEST(no_rule)
{
	sim_make(1);
	sim_table->rule[SIM_FIRST] = abi_rule_make(ABI_RULE_RSP, 3, 0);
	sim_table->rule[SIM_FIRST + 1] = ABI_RULE_NONE;
	sim_call(SIM_FIRST + 1);
	sim_call(SIM_FIRST);
	expected_count = sim_hook(&start, expected);
	struct abi_slot *slot = sim_slot();
	expected_count = 2;
	check_frames(slot, walk(slot));
	check_trunc(slot, ABI_TRUNC_NO_RULE);
	ck_assert_uint_eq(world_control->unknown_pcs, 0);
}

HT_TEST(null_return_address_is_the_end)
{
	sim_make(1);
	sim_table->rule[SIM_FIRST] = abi_rule_make(ABI_RULE_RSP, 3, 0);
	sim_call(SIM_FIRST);
	sim_call(SIM_FIRST);
	expected_count = sim_hook(&start, expected) - 1;
	*sim_word(sim_calls[0].caller_sp - 8) = 0;
	struct abi_slot *slot = sim_slot();
	check_frames(slot, walk(slot));
	check_trunc(slot, -1);
}

/* A signal interrupts an entry of a procedure linkage table, before or after the entry pushes a
 * word. */
HT_TEST(linkage_table)
{
	for (unsigned at = 0; at < 16; at++) {
		sim_make(1);
		sim_table->rule[SIM_FIRST] = abi_rule_make(ABI_RULE_PLT, 11, 0);
		sim_table->rule[SIM_FIRST + 1] = abi_rule_make(ABI_RULE_RSP, 4, 2);
		uint32_t function = SIM_FIRST;
		sim_call(function);
		if (at >= 11)
			sim_push(7);
		uint64_t pc = SIM_CODE_BASE + function * ABI_GRANULE_BYTES + 32 + at;
		sim_signal(SIM_FIRST + 1);
		sim_calls[1].caller_pc = pc | STEP_EXACT;
		*sim_word(sim_calls[2].caller_sp + 168) = pc;
		expected_count = sim_hook(&start, expected);
		struct abi_slot *slot = sim_slot();
		check_frames(slot, walk(slot));
		check_trunc(slot, -1);
	}
}

/* Code without tables: only a frame pointer that looks like one is followed. */
HT_TEST(bad_frame_pointers)
{
	const uint64_t sp = (uint64_t)(sim_stack + 100),
		       hi = (uint64_t)(sim_stack + SIM_STACK_WORDS);
	const struct {
		uint64_t fp;
		int reason;
	} cases[] = {
		{0, ABI_TRUNC_NO_RULE},
		{8, ABI_TRUNC_NO_RULE},
		{UINT64_MAX - 7, ABI_TRUNC_NO_RULE},
		{1ull << 47, ABI_TRUNC_NO_RULE},
		{sp - 8, ABI_TRUNC_NO_RULE},
		{hi, ABI_TRUNC_NO_RULE},
		{sp + 4, ABI_TRUNC_STACK},
		{hi - 8, ABI_TRUNC_STACK},
		{hi - 1, ABI_TRUNC_STACK},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(cases); i++) {
		sim_make(1);
		sim_snapshot->range[0].table = 0;
		start = (struct walk_start){sim_site(SIM_FIRST), sp, cases[i].fp};
		expected[0] = start.pc;
		expected_count = 1;
		struct abi_slot *slot = sim_slot();
		check_frames(slot, walk(slot));
		check_trunc(slot, cases[i].reason);
	}
}

/* In an epilogue the frame pointer is restored: the CFA is nearer, and the word that held it lies
 * below rsp. */
HT_TEST(popped_frame_pointer)
{
	sim_make(1);
	sim_table->rule[SIM_FIRST] = abi_rule_make(ABI_RULE_RBP, 2, 2);
	sim_table->rule[SIM_FIRST + 1] = abi_rule_make(ABI_RULE_RSP, 1, 2);
	sim_call(SIM_FIRST);
	uint64_t site = sim_site(SIM_FIRST);
	sim_calls[sim_depth++] = (struct sim_call){site, sim_sp, sim_fp, SIM_FIRST + 1};
	sim_push(site);
	sim_word(sim_sp)[-1] = 0xbad; /* the word in which rbp was saved */
	expected_count = sim_hook(&start, expected);
	struct abi_slot *slot = sim_slot();
	check_frames(slot, walk(slot));
	check_trunc(slot, -1);
}

/*
 * Words of the stack and of the tables are overwritten at random. Whatever the walk makes of it, it
 * stays on the stack: the sanitizer knows where that ends.
 */
HT_TEST(garbage)
{
	for (uint64_t seed = 1; seed <= 2000; seed++) {
		sim_make(seed);
		calls_random(1 + (uint32_t)sim_random(60));
		struct abi_slot *slot = sim_slot();
		for (uint64_t i = 0; i < 40; i++) {
			uint64_t at = (sim_sp - (uint64_t)sim_stack) / 8;
			uint64_t value[] = {sim_random(UINT64_MAX), sim_random(4096),
				(uint64_t)sim_stack + sim_random(sizeof(sim_stack) + 64),
				sim_site(function_random())};
			sim_stack[at + sim_random(SIM_STACK_WORDS - at)] = value[sim_random(4)];
		}
		if (seed % 2) {
			for (uint32_t i = 0; i < SIM_FUNCTIONS; i++) {
				if (sim_random(4) == 0)
					sim_table->rule[i] = (uint32_t)sim_random(UINT32_MAX);
			}
		}
		if (seed % 3 == 0)
			slot->head.stack_hi = 0;
		if (seed % 5 == 0)
			start.fp = sim_random(UINT64_MAX);
		if (seed % 7 == 0)
			start.sp += sim_random(16);
		uint32_t count = walk(slot);
		ck_assert_uint_ge(count, 1);
		ck_assert_uint_le(count, SIM_DEPTH_MAX);
		ck_assert(slot->frames[0] == start.pc || slot->frames[0] & STEP_INTERPRETED);
		ck_assert_uint_le(sys_fake.calls, 65);
	}
}

/* Two stacks whose forged signal frames point at each other. */
HT_TEST(endless_signal_frames)
{
	static _Alignas(HT_PAGE_BYTES) uint64_t other[512];
	sim_make(1);
	struct abi_slot *slot = sim_slot();
	uint64_t *mine = &sim_stack[100];
	uint64_t pc = sim_site(SIM_TRAMPOLINE);
	mine[20] = (uint64_t)other;
	other[20] = (uint64_t)mine;
	mine[21] = other[21] = pc;
	sys_fake.readable = (const uint8_t *)other;
	sys_fake.readable_bytes = sizeof(other);
	start = (struct walk_start){pc, (uint64_t)mine, 0};
	ck_assert_uint_le(walk(slot), 16);
	check_trunc(slot, ABI_TRUNC_STACK);
}

/* A forged signal frame leads back in: no loop. */
HT_TEST(inward_signal_frame)
{
	for (unsigned i = 0; i < 2; i++) {
		sim_make(1);
		struct abi_slot *slot = sim_slot();
		uint64_t *ucontext = &sim_stack[100];
		ucontext[20] = (uint64_t)(ucontext - i);
		ucontext[21] = sim_site(SIM_TRAMPOLINE);
		start = (struct walk_start){sim_site(SIM_TRAMPOLINE), (uint64_t)ucontext, 0};
		ck_assert_uint_eq(walk(slot), 1);
		check_trunc(slot, ABI_TRUNC_STACK);
	}
}

/* Each frame of a foreign stack is larger than the copy: the walk gives up early. */
HT_TEST(huge_foreign_stack)
{
	enum { FRAME_WORDS = 4096, FRAMES = 200 };
	static _Alignas(HT_PAGE_BYTES) uint64_t huge[FRAME_WORDS * FRAMES];
	sim_make(1);
	sim_table->rule[SIM_FIRST] = abi_rule_make(ABI_RULE_RSP, FRAME_WORDS, 0);
	for (size_t i = 1; i < FRAMES; i++)
		huge[i * FRAME_WORDS - 1] = sim_site(SIM_FIRST);
	start = (struct walk_start){sim_site(SIM_FIRST), (uint64_t)huge, 0};
	sys_fake.readable = (const uint8_t *)huge;
	sys_fake.readable_bytes = sizeof(huge);
	struct abi_slot *slot = sim_slot();
	ck_assert_uint_eq(walk(slot), 65);
	check_trunc(slot, ABI_TRUNC_STACK);
	ck_assert_uint_le(sys_fake.calls, 65);
}

/* A handler interrupts a hook at any of its instructions: the program's frames are all there. */
HT_TEST(through_a_hook)
{
	static const uint8_t code[] = {0xf3, 0x0f, 0x1e, 0xfa, /* endbr64 */
		0x55,					       /* push %rbp */
		0x48, 0x89, 0xe5,			       /* mov %rsp,%rbp */
		0x90, 0x90, 0x5d,			       /* body; pop %rbp */
		0xc3,					       /* ret */
		0x5d, 0xff, 0x61, 0x08};		       /* pop %rbp; jmp *8(%rcx) */
	static const struct {
		unsigned offset;
		bool pushed, framed;
	} cases[] = {{0, false, false}, {4, false, false}, {5, true, false}, {8, true, true},
		{10, true, true}, {11, false, false}, {12, true, true}, {13, false, false}};
	for (size_t i = 0; i < HT_ARRAY_SIZE(cases) + 2; i++) {
		bool in_thunk = i == HT_ARRAY_SIZE(cases), in_guard = i > HT_ARRAY_SIZE(cases);
		bool in_hook = !in_thunk && !in_guard;
		sim_make(1);
		memcpy(world_image + ABI_TEXT_OFF, code, sizeof(code));
		sys_fake.code_lo = (uint64_t)world_image + ABI_TEXT_OFF;
		sys_fake.code_frames_lo = sys_fake.code_lo;
		sys_fake.code_hi = sys_fake.code_lo + sizeof(code);
		if (in_guard)
			sys_fake.code_frames_lo = sys_fake.code_lo + 10;
		uint64_t pc = in_thunk	 ? (uint64_t)world_image + ABI_THUNK_ENTRY + 4
			      : in_guard ? sys_fake.code_lo + 9
					 : sys_fake.code_lo + cases[i].offset;
		sim_table->rule[SIM_FIRST] = abi_rule_make(ABI_RULE_RBP, 2, 2);
		sim_table->rule[SIM_FIRST + 1] = abi_rule_make(ABI_RULE_RSP, 6, 3);
		sim_call(SIM_FIRST);
		sim_call(SIM_FIRST + 1);
		sim_call(SIM_FIRST); /* stands for the call of the hook */
		sim_sp = sim_calls[2].caller_sp - 8;
		sim_fp = sim_calls[2].caller_fp;
		if (in_hook && cases[i].pushed)
			sim_push(sim_fp);
		if (in_hook && cases[i].framed)
			sim_fp = sim_sp;
		sim_signal(SIM_FIRST + 1);
		*sim_word(sim_calls[4].caller_sp + 168) = pc;
		expected_count = sim_hook(&start, expected);
		memmove(&expected[2], &expected[3], 8 * --expected_count);
		struct abi_slot *slot = sim_slot();
		check_frames(slot, walk(slot));
		check_trunc(slot, -1);
		ck_assert_uint_eq(world_control->unknown_pcs, 0);
	}
}

HT_TEST(through_the_real_function)
{
	sim_make(1);
	sys_fake.code_lo = (uint64_t)world_image + ABI_TEXT_OFF;
	sys_fake.code_frames_lo = sys_fake.code_lo;
	sys_fake.code_hi = sys_fake.code_lo + 64;
	sim_table->rule[SIM_FIRST] = abi_rule_make(ABI_RULE_RBP, 2, 2);
	sim_table->rule[SIM_FIRST + 1] = abi_rule_make(ABI_RULE_RSP, 6, 3);
	sim_call(SIM_FIRST);
	sim_call(SIM_FIRST);	 /* the hook, with its frame */
	sim_call(SIM_FIRST + 1); /* the allocator */
	*sim_word(sim_calls[2].caller_sp - 8) = sys_fake.code_lo + 32;
	sim_signal(SIM_FIRST);
	expected_count = sim_hook(&start, expected);
	memmove(&expected[3], &expected[4], 8 * --expected_count);
	struct abi_slot *slot = sim_slot();
	check_frames(slot, walk(slot));
	check_trunc(slot, -1);
}

/* Pages of the image that hold no code may not even be mapped. */
HT_TEST(image_without_code)
{
	sim_make(1);
	sys_fake.code_lo = (uint64_t)world_image + ABI_TEXT_OFF;
	sys_fake.code_frames_lo = sys_fake.code_lo;
	sys_fake.code_hi = sys_fake.code_lo + 64;
	ck_assert_int_eq(
		mprotect(world_image + ABI_TEXT_OFF + HT_PAGE_BYTES, HT_PAGE_BYTES, PROT_NONE), 0);
	start = (struct walk_start){sys_fake.code_lo + HT_PAGE_BYTES + 100, sim_sp, 0};
	ck_assert_uint_eq(walk(sim_slot()), 1);
	ck_assert_uint_eq(world_control->unknown_pcs, 1);
}

HT_SUITE("agent/walk")
