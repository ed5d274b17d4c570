/* SPDX-License-Identifier: Apache-2.0
 *
 * Which calls are part of another hooked call, judged by the frames between the two on the stack.
 */
#include "agent/nested.h"

#include "tests/unit/agent/simulate.h"

#define LIBRARY (SIM_FIRST + 1) /* the hooked function itself, with a frame of a few words */
#define HANDLER (SIM_FIRST + 2)
#define FAR	(SIM_FIRST + 3) /* with a frame of two kilobytes */

static struct abi_thunk self;

/* Returns the slot after the program has called a hook, and the hook has called LIBRARY. */
static struct abi_slot *enter_hook(void)
{
	sim_make(1);
	self = world_thunk(ABI_HOOK_MALLOC, NULL);
	sys_fake.code_lo = (uint64_t)world_image + ABI_TEXT_OFF;
	sys_fake.code_frames_lo = sys_fake.code_lo;
	sys_fake.code_hi = sys_fake.code_lo + 64;
	sim_table->rule[SIM_FIRST] = abi_rule_make(ABI_RULE_RBP, 2, 2);
	sim_table->rule[LIBRARY] = abi_rule_make(ABI_RULE_RSP, 6, 3);
	sim_table->rule[HANDLER] = abi_rule_make(ABI_RULE_RSP, 4, 0);
	sim_table->rule[FAR] = abi_rule_make(ABI_RULE_RSP, 250, 0);
	sim_call(SIM_FIRST);
	struct abi_slot *slot = sim_slot();
	slot->head.entry_sp = sim_sp;
	slot->head.state = ABI_SLOT_IN_REAL;
	sim_call(SIM_FIRST); /* the hook, with its frame */
	sim_call(LIBRARY);
	*sim_word(sim_calls[2].caller_sp - 8) = sys_fake.code_lo + 32;
	return slot;
}

/* Whether a call that the running function makes now is nested. */
static bool is_nested(struct abi_slot *slot)
{
	struct {
		uint64_t fp, pc;
	} * frame;
	sim_push(sim_site(sim_running()));
	sim_push(sim_fp);
	frame = (void *)sim_sp;
	bool nested = nested_in(&self, slot, (const struct thread_frame *)frame);
	sim_sp += 16;
	return nested;
}

HT_TEST(a_library_before_the_allocator)
{
	struct abi_slot *slot = enter_hook();
	ck_assert(is_nested(slot));
	sim_call(LIBRARY);
	ck_assert(is_nested(slot));
	sim_call(FAR);
	sim_call(LIBRARY);
	ck_assert(is_nested(slot));
	ck_assert_uint_eq(sys_fake.calls, 0);
	slot->head.bounds_incarnation++; /* a coroutine's stack: by copies */
	ck_assert(is_nested(slot));
}

HT_TEST(a_handler_within_the_allocator)
{
	struct abi_slot *slot = enter_hook();
	sim_signal(HANDLER);
	ck_assert(!is_nested(slot));
	sim_call(LIBRARY);
	ck_assert(!is_nested(slot));
}

HT_TEST(a_mark_of_a_hook_that_is_gone)
{
	struct abi_slot *slot = enter_hook();
	slot->head.entry_sp -= 8;
	ck_assert(!is_nested(slot));
	slot->head.entry_sp = (uint64_t)&self;
	ck_assert(!is_nested(slot));
	enter_hook();
	*sim_word(sim_calls[2].caller_sp - 8) = sim_site(SIM_FIRST); /* no hook's frame */
	ck_assert(!is_nested(slot));
}

/* If the stack cannot be walked, a call is nested if it is near the outer call on the stack, and
 * comes from the code of an allocator. */
HT_TEST(a_stack_that_cannot_be_walked)
{
	struct abi_slot *slot = enter_hook();
	sim_table->rule[LIBRARY] = ABI_RULE_NONE;
	ck_assert(!is_nested(slot));
	struct abi_thunk *thunk = (struct abi_thunk *)(world_image + ABI_THUNKS_OFF);
	thunk[0] = self;
	thunk[0].real = 1;
	thunk[1] = thunk[0];
	thunk[1].real_lo = SIM_CODE_BASE;
	thunk[1].real_len = SIM_FUNCTIONS * ABI_GRANULE_BYTES;
	ck_assert(!nested_is_allocator(&self, sim_site(LIBRARY)));
	world_config->thunks = (uint64_t)thunk;
	ck_assert(!nested_is_allocator(&self, sim_site(LIBRARY))); /* in no thunk page */
	ck_assert(nested_is_allocator(&thunk[0], sim_site(LIBRARY)));
	self = thunk[1];
	ck_assert(is_nested(slot));
	slot->head.entry_sp += NESTED_NEAR_BYTES;
	ck_assert(!is_nested(slot));
}

/* An allocator may call mmap, and a library that replaces mmap may allocate. */
HT_TEST(functions_of_another_kind)
{
	struct abi_slot *slot = enter_hook();
	self.hook = ABI_MAPPING_MMAP;
	ck_assert(!is_nested(slot));
	slot->head.state = ABI_SLOT_IN_MAPPING;
	ck_assert(is_nested(slot));
	slot->head.state = ABI_SLOT_IN_UNMAPPING;
	ck_assert(is_nested(slot));
	self.hook = ABI_HOOK_FREE;
	ck_assert(!is_nested(slot));
	slot->head.state = ABI_SLOT_RECORDING;
	ck_assert(!is_nested(slot));
}

HT_TEST(within_a_call_that_was_only_forwarded)
{
	struct abi_slot *slot = enter_hook();
	sim_push(sim_site(LIBRARY));
	sim_push(sim_fp);
	const struct thread_frame *frame = (const void *)sim_sp;
	uint64_t at = sim_calls[1].caller_sp - 8;
	ck_assert(nested_in_call(world_config, slot, frame, at, *sim_word(at)));
	ck_assert(!nested_in_call(world_config, slot, frame, at, *sim_word(at) + 1));
	ck_assert(!nested_in_call(world_config, slot, frame, at - 8, *sim_word(at)));
}

HT_SUITE("agent/nested")
