/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that exists only as unwind tables and a stack. The test makes its functions call,
 * return, and be interrupted by signals; the frames are laid out as by compilers and the kernel.
 * The frames that a walk must find are known at every moment. Included once by a test program.
 */
#pragma once

#include "agent/walk.h"
#include "tests/unit/agent/world.h"

#define SIM_CODE_BASE  0x10000000u /* where the module is loaded; its bias */
#define SIM_FUNCTIONS  64u	   /* each fills one granule */
#define SIM_START      0u	   /* the outermost function; its rule is ABI_RULE_END */
#define SIM_TRAMPOLINE 1u	   /* returns from handlers; its rule is ABI_RULE_SIGNAL */
#define SIM_FIRST      2u	   /* the first function that tests may call */
#ifndef SIM_STACK_WORDS
#define SIM_STACK_WORDS 16384u
#endif
#define SIM_STACK_BYTES (SIM_STACK_WORDS * sizeof(uint64_t))
#define SIM_STACK_BASE	0x20000000u /* the same in each run: keys of stacks depend on it */
#ifndef SIM_DEPTH_MAX
#define SIM_DEPTH_MAX 2048u
#endif
#define SIM_UCONTEXT	960u /* bytes */
#define SIM_TABLE_OFF	(ABI_UNWIND_OFF + 0x10000u)
#define SIM_RED_ZONE	128u
#define SIM_INTERPRETED (-4) /* words from rbp to the function that an interpreter's frame runs */
#define SIM_SCRIPTS	5u   /* the running thread's number in abi_snapshot.scripts */

struct sim_table {
	struct abi_table header;
	uint32_t granule[SIM_FUNCTIONS + 1];
	uint16_t row_pc[SIM_FUNCTIONS + ABI_ROW_PAD];
	uint16_t row_rule[SIM_FUNCTIONS];
	uint32_t rule[SIM_FUNCTIONS];
};

struct sim_call {
	uint64_t caller_pc; /* with STEP_EXACT if a signal interrupted the caller */
	uint64_t caller_sp; /* after the return */
	uint64_t caller_fp;
	uint32_t function; /* the called function */
};

static struct sim_table *sim_table;
static struct abi_snapshot *sim_snapshot;

/* The running thread. */
static uint64_t *const sim_stack = (uint64_t *)(uintptr_t)SIM_STACK_BASE;
static uint64_t sim_sp, sim_fp;
static uint32_t sim_depth;
static struct sim_call sim_calls[SIM_DEPTH_MAX];
static uint64_t sim_random_state;

HT_UNUSED
static uint64_t sim_random(uint64_t below)
{
	sim_random_state ^= sim_random_state << 13;
	sim_random_state ^= sim_random_state >> 7;
	sim_random_state ^= sim_random_state << 17;
	return sim_random_state % below;
}

static uint64_t *sim_word(uint64_t address)
{
	return (uint64_t *)address;
}

/* Returns a return address in `function`, at random. The call before it lies in the function's
 * granule; the address may be the first one behind the granule. */
HT_UNUSED
static uint64_t sim_site(uint32_t function)
{
	return SIM_CODE_BASE + function * ABI_GRANULE_BYTES + 1 + sim_random(4) * 85;
}

HT_UNUSED
static uint32_t sim_rule(uint32_t function)
{
	return sim_table->rule[function];
}

/* Returns a random rule, with a frame size and a saved rbp as compilers choose them. */
static uint32_t sim_rule_random(void)
{
	int words = 1 + (int)sim_random(20);
	switch (sim_random(8)) {
	case 0:
	case 1:
		return abi_rule_make(ABI_RULE_RBP, 2, 2);
	case 2:
		return abi_rule_make(ABI_RULE_DRAP, -1, 0);
	case 3:
		return abi_rule_make(ABI_RULE_FRAME, sim_random(2) ? SIM_INTERPRETED : 0, 0);
	default:
		return abi_rule_make(ABI_RULE_RSP, words,
			words > 1 && sim_random(2) ? 2 + (unsigned)sim_random(words - 1) : 0);
	}
}

/* Makes the world, with the tables of a module of random functions. */
HT_UNUSED
static void sim_make(uint64_t seed)
{
	sim_random_state = seed * 0x9e3779b97f4a7c15ull + 1;
	world_make();
	if (!sim_snapshot)
		ck_assert_ptr_eq(mmap(sim_stack, SIM_STACK_BYTES, PROT_READ | PROT_WRITE,
					 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
			sim_stack);
	sim_table = (struct sim_table *)(world_image + SIM_TABLE_OFF);
	sim_table->header = (struct abi_table){
		.magic = ABI_TABLE_MAGIC,
		.bytes = sizeof(*sim_table),
		.hi = SIM_FUNCTIONS * ABI_GRANULE_BYTES,
		.granule_count = SIM_FUNCTIONS,
		.row_count = SIM_FUNCTIONS,
		.rule_count = SIM_FUNCTIONS,
		.granule_off = offsetof(struct sim_table, granule),
		.pc_off = offsetof(struct sim_table, row_pc),
		.index_off = offsetof(struct sim_table, row_rule),
		.rule_off = offsetof(struct sim_table, rule),
	};
	for (uint32_t i = 0; i < SIM_FUNCTIONS; i++) {
		sim_table->granule[i] = i;
		sim_table->row_rule[i] = (uint16_t)i;
		sim_table->rule[i] = sim_rule_random();
	}
	sim_table->granule[SIM_FUNCTIONS] = SIM_FUNCTIONS;
	sim_table->rule[SIM_START] = abi_rule_make(ABI_RULE_END, 0, 0);
	sim_table->rule[SIM_TRAMPOLINE] = abi_rule_make(ABI_RULE_SIGNAL, 0, 0);

	sim_snapshot = (struct abi_snapshot *)(world_image + ABI_UNWIND_OFF);
	*sim_snapshot = (struct abi_snapshot){
		.generation = 1,
		.epoch = 1,
		.range_count = 1,
		.cache_sets = ABI_CACHE_SETS,
		.cache = (uint64_t)world_image + ABI_CACHES_OFF,
		.scripts = {abi_scripts_of(sys_fake_thread_pointer & ~15ull, SIM_SCRIPTS)},
	};
	sim_snapshot->range[0] = (struct abi_range){
		.lo = SIM_CODE_BASE,
		.hi = SIM_CODE_BASE + SIM_FUNCTIONS * ABI_GRANULE_BYTES,
		.bias = SIM_CODE_BASE,
		.table = (uint64_t)sim_table,
	};
	world_config->unwind = (uint64_t)sim_snapshot;
	world_config->frames_max = SIM_DEPTH_MAX;
	world_config->interpreted_words = SIM_INTERPRETED;
	sys_fake.readable = (const uint8_t *)sim_stack;
	sys_fake.readable_bytes = SIM_STACK_BYTES;

	for (size_t i = 0; i < SIM_STACK_WORDS; i++)
		sim_stack[i] = sim_random(UINT64_MAX);
	sim_sp = (uint64_t)(sim_stack + SIM_STACK_WORDS) - 16;
	sim_fp = 0;
	sim_depth = 0;
}

/* Returns the running thread's slot, with the simulated stack as the thread's primary one. */
HT_UNUSED
static struct abi_slot *sim_slot(void)
{
	struct abi_slot *slot = &world_slots[0];
	slot->head.key = sys_fake_thread_pointer;
	world_slots[1].head.key = sys_fake_thread_pointer + 1; /* a signal handler's */
	slot->head.stack_lo = (uint64_t)sim_stack;
	slot->head.stack_hi = (uint64_t)(sim_stack + SIM_STACK_WORDS);
	slot->head.bounds_incarnation = slot->head.incarnation;
	return slot;
}

static uint32_t sim_running(void)
{
	return sim_depth ? sim_calls[sim_depth - 1].function : SIM_START;
}

static bool sim_has_room(uint64_t bytes)
{
	return sim_depth < SIM_DEPTH_MAX - 2 && sim_sp - (uint64_t)sim_stack > bytes + 1024;
}

static void sim_push(uint64_t value)
{
	sim_sp -= 8;
	*sim_word(sim_sp) = value;
}

/* Returns a word for the place where an interpreter's frame names its function: one of two
 * functions, a word that names none, or any word. */
HT_UNUSED
static uint64_t sim_interpreted_random(void)
{
	const uint64_t words[] = {0x7f1234560001, 0x7f1234561001, 5ull << 32,
		sim_random(UINT64_MAX) >> sim_random(64)};
	return words[sim_random(HT_ARRAY_SIZE(words))];
}

/* The called function's prologue and locals; sim_sp points at the return address. */
static void sim_enter(uint32_t rule)
{
	uint64_t cfa = sim_sp + 8;
	switch (abi_rule_kind(rule)) {
	case ABI_RULE_RSP:
		sim_sp = cfa - 8 * (uint64_t)abi_rule_offset(rule);
		if (abi_rule_rbp_slot(rule)) {
			*sim_word(cfa - 8 * abi_rule_rbp_slot(rule)) = sim_fp;
			sim_fp = sim_random(UINT64_MAX);
		}
		break;
	case ABI_RULE_RBP:
	case ABI_RULE_FRAME:
		sim_push(sim_fp);
		sim_fp = sim_sp;
		sim_sp -= 8 * sim_random(12); /* alloca */
		if (abi_rule_offset(rule) && sim_fp + 8 * SIM_INTERPRETED >= sim_sp)
			*sim_word(sim_fp + 8 * SIM_INTERPRETED) = sim_interpreted_random();
		break;
	case ABI_RULE_DRAP:
		sim_sp &= ~31ull;
		sim_push(*sim_word(cfa - 8));
		sim_push(sim_fp);
		sim_fp = sim_sp;
		sim_push(cfa);
		sim_sp -= 32;
		break;
	case ABI_RULE_NONE:
	case ABI_RULE_SIGNAL:
	case ABI_RULE_PLT:
	case ABI_RULE_END:
		break;
	}
}

/* Calls `function`. Does nothing when the stack is full. */
HT_UNUSED
static void sim_call(uint32_t function)
{
	if (!sim_has_room(0))
		return;
	uint64_t site = sim_site(sim_running());
	sim_calls[sim_depth++] = (struct sim_call){site, sim_sp, sim_fp, function};
	sim_push(site);
	sim_enter(sim_rule(function));
}

/* A signal interrupts the running function; the handler is `function`. Does nothing when the stack
 * is full. */
HT_UNUSED
static void sim_signal(uint32_t function)
{
	if (!sim_has_room(SIM_UCONTEXT + SIM_RED_ZONE))
		return;
	uint64_t pc = SIM_CODE_BASE + sim_running() * ABI_GRANULE_BYTES + sim_random(256);
	sim_calls[sim_depth++] = (struct sim_call){pc | STEP_EXACT, sim_sp, sim_fp, SIM_TRAMPOLINE};
	uint64_t ucontext = (sim_sp - SIM_RED_ZONE - SIM_UCONTEXT) & ~15ull;
	*sim_word(ucontext + 120) = sim_fp;
	*sim_word(ucontext + 160) = sim_sp;
	*sim_word(ucontext + 168) = pc;
	sim_sp = ucontext;
	sim_call(function);
}

/* The running function returns. If it is a handler, the trampoline also returns. Does nothing in
 * the outermost function. */
HT_UNUSED
static void sim_return(void)
{
	while (sim_depth > 0) {
		const struct sim_call *call = &sim_calls[--sim_depth];
		sim_sp = call->caller_sp;
		sim_fp = call->caller_fp;
		if (sim_running() != SIM_TRAMPOLINE)
			return;
	}
}

/* Returns what a walk must record for a frame of `function`: `pc`, or for an interpreter's frame
 * the function that the frame names. */
static uint64_t sim_frame(uint32_t function, uint64_t pc, uint64_t sp, uint64_t fp)
{
	const uint32_t rule = sim_rule(function);
	const uint64_t at = fp + 8 * (uint64_t)abi_rule_offset(rule);
	if (abi_rule_kind(rule) != ABI_RULE_FRAME || abi_rule_offset(rule) == 0 ||
		pc & STEP_EXACT || at % 8 || at < sp ||
		at >= (uint64_t)(sim_stack + SIM_STACK_WORDS))
		return pc;
	const uint64_t word = *sim_word(at);
	if (word % 8 != 1 || word < HT_PAGE_BYTES || word >> 47)
		return pc;
	return (word - 1) | (uint64_t)SIM_SCRIPTS << ABI_SCRIPTS_SHIFT | STEP_EXACT |
	       STEP_INTERPRETED;
}

/* Returns the flags of a frame's node (ABI_NODE_...). */
HT_UNUSED
static uint8_t sim_flags(uint64_t frame)
{
	return (frame & STEP_EXACT ? ABI_NODE_EXACT : 0) |
	       (frame & STEP_INTERPRETED ? ABI_NODE_INTERPRETED : 0);
}

/* The running function calls a hook. `*ret_start` is where the hook's walk starts, `expected` the
 * frames that the walk must find, innermost first. Returns their number, at most SIM_DEPTH_MAX +
 * 1. */
HT_UNUSED
static uint32_t sim_hook(struct walk_start *ret_start, uint64_t *expected)
{
	uint32_t count = 0;
	*ret_start = (struct walk_start){sim_site(sim_running()), sim_sp, sim_fp};
	expected[count++] = sim_frame(sim_running(), ret_start->pc, sim_sp, sim_fp);
	for (uint32_t i = sim_depth; i-- > 0;) {
		const struct sim_call *call = &sim_calls[i];
		expected[count++] = sim_frame(i ? sim_calls[i - 1].function : SIM_START,
			call->caller_pc, call->caller_sp, call->caller_fp);
	}
	return count;
}
