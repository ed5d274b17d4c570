/* SPDX-License-Identifier: Apache-2.0
 *
 * Which slot a call gets, and when it gets none.
 */
#include "agent/thread.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

#include "agent/slot.h"
#include "agent/stream.h"
#include "tests/unit/agent/world.h"

#define REAL_LO	 0x10000u
#define REAL_LEN 0x1000u

/* A stack with places for the frames of hooks. */
static uint64_t stack[4096];
static struct abi_thunk self;

/* The frame of a hook called from `pc`, whose caller's rsp is stack + `words`. */
static const struct thread_frame *frame_at(size_t words, uint64_t pc)
{
	stack[words - 1] = pc;
	stack[words - 2] = 0;
	return (const struct thread_frame *)&stack[words - 2];
}

static struct abi_slot *enter_at(size_t words)
{
	return thread_enter(&self, frame_at(words, 0x999), ABI_SLOT_IN_REAL);
}

static void setup(void)
{
	world_make();
	self = world_thunk(ABI_HOOK_MALLOC, NULL);
	self.real_lo = REAL_LO;
	self.real_len = REAL_LEN;
}

static void bounds_set(struct abi_slot *slot)
{
	slot->head.stack_lo = (uint64_t)stack;
	slot->head.stack_hi = (uint64_t)(stack + HT_ARRAY_SIZE(stack));
	slot->head.bounds_incarnation = slot->head.incarnation;
}

HT_TEST(same_slot_each_time)
{
	setup();
	struct abi_slot *slot = enter_at(4000);
	ck_assert_ptr_nonnull(slot);
	ck_assert_uint_eq(slot->head.key, sys_fake_thread_pointer);
	ck_assert_uint_eq(slot->head.tid, WORLD_TID);
	ck_assert_uint_eq(slot->head.state, ABI_SLOT_IN_REAL);
	ck_assert_uint_eq(slot->head.entry_sp, (uint64_t)&stack[4000]);
	thread_leave(world_config, slot);
	ck_assert_uint_eq(slot->head.state, ABI_SLOT_IDLE);
	uint32_t incarnation = slot->head.incarnation;
	ck_assert_ptr_eq(enter_at(3000), slot);
	ck_assert_uint_eq(slot->head.incarnation, incarnation);
	/* The first call asks whether the control block is the thread's own, and whether the thread
	 * may read the clock. */
	ck_assert_uint_eq(sys_fake.calls, 2);
}

/* The agent learns this at the first call of a thread, also of a thread that has the control block
 * of one that ended. */
HT_TEST(a_thread_that_may_not_read_the_clock)
{
	for (unsigned i = 0; i < 2; i++) {
		setup();
		if (i) {
			thread_leave(world_config, enter_at(4000));
			world_tcb.tid = WORLD_TID + 1;
		}
		sys_fake.tsc_forbidden = true;
		uint64_t tsc = sys_fake.tsc;
		struct abi_slot *slot = enter_at(4000);
		ck_assert_uint_eq(sys_fake.tsc, tsc);
		ck_assert_uint_eq(world_state->alive, ABI_MUTE);
		ck_assert_uint_eq(world_control->forbidden, ABI_FORBIDDEN_CLOCK);
		thread_leave(world_config, slot);
		ck_assert_ptr_null(enter_at(3000));
	}
}

HT_TEST(threads_have_slots_of_their_own)
{
	static struct world_tcb tcbs[WORLD_SLOTS + 1];
	struct abi_slot *slots[WORLD_SLOTS];
	setup();
	for (unsigned i = 0; i < WORLD_SLOTS; i++) {
		world_become(&tcbs[i], 100 + i);
		slots[i] = enter_at(4000);
		ck_assert_ptr_nonnull(slots[i]);
		ck_assert_uint_eq(slots[i]->head.tid, 100 + i);
		thread_leave(world_config, slots[i]);
		for (unsigned k = 0; k < i; k++)
			ck_assert_ptr_ne(slots[k], slots[i]);
	}
	world_become(&tcbs[WORLD_SLOTS], 200);
	ck_assert_ptr_null(enter_at(4000));
	ck_assert_uint_eq(world_control->lost[ABI_LOSS_SLOT_FULL], 1);

	/* Threads with later slots skip a dead slot; a new thread claims it. */
	slots[5]->head.key |= ABI_SLOT_DEAD;
	slots[5]->head.state = ABI_SLOT_IN_REAL;
	for (unsigned i = 0; i < WORLD_SLOTS; i++) {
		if (i == 5)
			continue;
		world_become(&tcbs[i], 100 + i);
		ck_assert_ptr_eq(enter_at(4000), slots[i]);
		thread_leave(world_config, slots[i]);
	}
	uint32_t incarnation = slots[5]->head.incarnation;
	world_become(&tcbs[WORLD_SLOTS], 200);
	ck_assert_ptr_eq(enter_at(4000), slots[5]);
	ck_assert_uint_eq(slots[5]->head.key, sys_fake_thread_pointer);
	ck_assert_uint_eq(slots[5]->head.tid, 200);
	ck_assert_uint_ne(slots[5]->head.incarnation, incarnation);
}

HT_TEST(dead_slot_keeps_its_stream)
{
	setup();
	struct stream_event event = {.kind = ABI_EVENT_FREE, .addr = 16};
	struct abi_slot *slot = enter_at(4000);
	stream_put(world_config, slot, &event);
	uint64_t committed = slot->head.committed;
	slot->head.key |= ABI_SLOT_DEAD;
	slot->head.state = ABI_SLOT_RECORDING;
	struct abi_slot *again = enter_at(4000);
	ck_assert_ptr_eq(again, slot);
	ck_assert_uint_eq(world_messages, 1);
	ck_assert_uint_eq(slot->head.buffer_start, committed);
	ck_assert_uint_eq(slot->head.events, 1);
}

HT_TEST(new_thread_in_an_old_tcb)
{
	setup();
	struct stream_event event = {.kind = ABI_EVENT_FREE, .addr = 16};
	struct event events[4];
	struct abi_slot *slot = enter_at(4000);
	bounds_set(slot);
	stream_put(world_config, slot, &event);
	thread_leave(world_config, slot);
	world_tcb.tid = 5000;
	ck_assert_ptr_eq(enter_at(4000), slot);
	ck_assert_uint_eq(slot->head.tid, 5000);
	ck_assert_uint_eq(slot->head.state, ABI_SLOT_IN_REAL);
	uint64_t lo, hi;
	ck_assert(!slot_bounds(&slot->head, &lo, &hi));
	stream_put(world_config, slot, &event);
	ck_assert_uint_eq(world_events(slot, events, 4), 2);
	ck_assert_uint_eq(events[0].tid, WORLD_TID);
	ck_assert_uint_eq(events[1].tid, 5000);
}

/* The new thread may be on any stack, also without known bounds. */
HT_TEST(new_thread_after_one_that_ended_in_a_hook)
{
	struct stream_event event = {.kind = ABI_EVENT_FREE, .addr = 16};
	for (unsigned level = 0; level < 2; level++) {
		setup();
		struct abi_slot *slot = enter_at(3000);
		for (unsigned i = 0; i < level; i++)
			slot = enter_at(2000);
		stream_put(world_config, slot, &event);
		slot->head.state = level ? ABI_SLOT_RECORDING : ABI_SLOT_IN_REAL;
		slot->head.calling = 1;
		world_tcb.tid = 5000;
		struct abi_slot *first = enter_at(1000);
		ck_assert_ptr_eq(first, world_my_slot(0));
		if (level)
			slot = enter_at(500);
		else
			slot = first;
		ck_assert_ptr_eq(slot, world_my_slot(level));
		ck_assert_uint_eq(slot->head.tid, 5000);
		ck_assert_uint_eq(slot->head.incarnation % 2, 0);
		ck_assert_uint_eq(slot->head.calling, 0);
		ck_assert_uint_eq(slot->head.buffer_start, slot->head.committed);
	}
}

static long fork_and_send(int fd, const struct sys_msghdr *message, int flags)
{
	world_state->alive = 0;
	return world_receive(fd, message, flags);
}

/* A handler forks while a slot gets a new owner. */
HT_TEST(a_forked_child_does_not_become_the_owner)
{
	setup();
	struct stream_event event = {.kind = ABI_EVENT_FREE, .addr = 16};
	struct abi_slot *slot = enter_at(4000);
	stream_put(world_config, slot, &event);
	slot->head.key |= ABI_SLOT_DEAD;
	uint32_t incarnation = slot->head.incarnation;
	world_tcb.tid = 5000;
	sys_fake.sendmsg = fork_and_send;
	ck_assert_ptr_null(enter_at(4000));
	ck_assert_uint_eq(slot->head.tid, WORLD_TID);
	ck_assert_uint_eq(slot->head.incarnation, incarnation);
	ck_assert_uint_eq(slot->head.state, ABI_SLOT_RECORDING);
}

/* A handler jumped out of an earlier change: the odd number, which marks a change, must not stay.
 */
HT_TEST(half_changed_incarnation)
{
	setup();
	struct abi_slot *slot = enter_at(4000);
	thread_leave(world_config, slot);
	slot->head.incarnation++;
	world_tcb.tid = 5000;
	ck_assert_ptr_eq(enter_at(4000), slot);
	ck_assert_uint_eq(slot->head.incarnation % 2, 0);
}

HT_TEST(tid_by_system_call)
{
	setup();
	world_config->tid_offset = 0;
	sys_fake.tid = 321;
	struct abi_slot *slot = enter_at(4000);
	ck_assert_uint_eq(slot->head.tid, 321);
	thread_leave(world_config, slot);
	ck_assert_ptr_eq(enter_at(4000), slot);
	ck_assert_uint_eq(sys_fake.calls, 3); /* gettid, and the two of any first call */

	setup();
	world_config->tid_offset = 0;
	world_config->flags = ABI_FLAG_NO_SYSCALL;
	ck_assert_uint_eq(enter_at(4000)->head.tid, 0);
	ck_assert_uint_eq(sys_fake.calls, 0);
}

/* Handlers, each interrupting the hook of the one before. */
HT_TEST(nested_hooks)
{
	setup();
	for (size_t level = 0; level < ABI_NEST_MAX; level++) {
		struct abi_slot *slot = enter_at(4000 - level * 500);
		ck_assert_ptr_nonnull(slot);
		ck_assert_uint_eq(slot->head.key, sys_fake_thread_pointer + level);
		ck_assert_uint_eq(slot->head.tid, WORLD_TID);
		slot_mark(slot, level % 2 ? ABI_SLOT_RECORDING : ABI_SLOT_IN_REAL);
	}
	ck_assert_ptr_null(enter_at(100));
	ck_assert_ptr_null(enter_at(200));
	const struct abi_slot_head *outer = &world_my_slot(0)->head;
	ck_assert_uint_eq(outer->lost[ABI_LOSS_NESTED], 2);
	ck_assert_uint_ne(outer->unbooked_lo, 0);
	ck_assert_uint_gt(outer->unbooked_hi, outer->unbooked_lo);
	thread_leave(world_config, world_my_slot(2));
	ck_assert_ptr_eq(enter_at(100), world_my_slot(2));
}

HT_TEST(allocator_calls_itself)
{
	setup();
	struct abi_slot *slot = enter_at(4000);
	const uint64_t inside[] = {REAL_LO, REAL_LO + REAL_LEN - 1,
		(uint64_t)world_image + ABI_TEXT_OFF, /* a tail call: it returns to the hook */
		(uint64_t)world_image + ABI_TEXT_OFF + ABI_TEXT_MAX - 1};
	for (size_t i = 0; i < HT_ARRAY_SIZE(inside); i++)
		ck_assert_ptr_null(
			thread_enter(&self, frame_at(3950, inside[i]), ABI_SLOT_IN_REAL));
	for (unsigned i = 0; i < ABI_LOSS_COUNT; i++)
		ck_assert_uint_eq(slot->head.lost[i], 0);
	ck_assert_ptr_null(world_my_slot(1));
	ck_assert_uint_eq(slot->head.entry_sp, (uint64_t)&stack[4000]);
}

HT_TEST(others_than_the_allocator)
{
	const struct {
		size_t words;
		uint64_t pc;
		enum abi_slot_state state;
	} cases[] = {
		{3950, REAL_LO - 1, ABI_SLOT_IN_REAL}, {3950, REAL_LO + REAL_LEN, ABI_SLOT_IN_REAL},
		{3950, REAL_LO, ABI_SLOT_RECORDING}, /* a handler, in usable() perhaps */
		{3000, REAL_LO, ABI_SLOT_IN_REAL},   /* too deep: a handler of the same module */
		{4050, REAL_LO, ABI_SLOT_IN_REAL},   /* another stack */
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(cases); i++) {
		setup();
		slot_mark(enter_at(4000), cases[i].state);
		struct abi_slot *slot = thread_enter(
			&self, frame_at(cases[i].words, cases[i].pc), ABI_SLOT_IN_REAL);
		ck_assert_ptr_nonnull(slot);
		ck_assert_ptr_eq(slot, world_my_slot(1));
	}
}

HT_TEST(hook_left_by_longjmp)
{
	setup();
	struct stream_event event = {.kind = ABI_EVENT_FREE, .addr = 16};
	struct abi_slot *slot = enter_at(2000);
	bounds_set(slot);
	stream_put(world_config, slot, &event);
	/* A new hook frame above the recorded one, or in its place: the old frame has ended, for a
	 * caller in libc, too. */
	for (size_t words = 2000; words <= 2001; words++) {
		ck_assert_ptr_eq(
			thread_enter(&self, frame_at(words, REAL_LO), ABI_SLOT_IN_REAL), slot);
		ck_assert_uint_eq(slot->head.entry_sp, (uint64_t)&stack[words]);
		ck_assert_uint_eq(slot->head.buffer_start, slot->head.committed);
	}
	/* A new hook frame below: a signal handler. */
	ck_assert_ptr_eq(enter_at(1500), world_my_slot(1));
}

static volatile unsigned steps_left;
static sigjmp_buf out;

static void on_step(int sig)
{
	(void)sig;
	if (--steps_left == 0)
		siglongjmp(out, 1);
}

/* Makes a call that a handler leaves after `steps` instructions. Returns false if the call has
 * fewer. */
static bool left_after(unsigned steps)
{
	steps_left = steps;
	if (sigsetjmp(out, 1))
		return true;
	__asm__ volatile("pushf\n\torq $0x100, (%%rsp)\n\tpopf" : : : "memory", "cc");
	thread_leave(world_config, enter_at(2000));
	__asm__ volatile("pushf\n\tandq $~0x100, (%%rsp)\n\tpopf" : : : "memory", "cc");
	return false;
}

/* The call is the first one of a free slot, or takes over the slot of a hook that was left deeper
 * down. */
HT_TEST(jumps_out_at_any_instruction)
{
	ck_assert_ptr_ne(signal(SIGTRAP, on_step), SIG_ERR);
	for (unsigned takes_over = 0; takes_over < 2; takes_over++) {
		unsigned steps = 0;
		for (bool more = true; more; steps++) {
			setup();
			struct abi_slot *slot = enter_at(4000);
			bounds_set(slot);
			thread_leave(world_config, slot);
			if (takes_over)
				ck_assert_ptr_eq(enter_at(1900), slot);
			more = left_after(steps + 1);
			ck_assert_ptr_eq(enter_at(2000), slot);
		}
		ck_assert_uint_gt(steps, 20);
	}
}

HT_TEST(hook_left_on_another_stack)
{
	static uint64_t other[64];
	setup();
	struct abi_slot *slot = enter_at(2000);
	/* Unknown bounds prove nothing. */
	ck_assert_ptr_eq(enter_at(2500), world_my_slot(1));
	thread_leave(world_config, world_my_slot(1));
	bounds_set(slot);
	slot->head.entry_sp = (uint64_t)&other[32];
	ck_assert_ptr_eq(enter_at(2500), world_my_slot(1));
}

/* The handler's stack is an array of a function further out: it lies above the hook, which is
 * alive. */
HT_TEST(signal_stack_within_the_primary)
{
	for (unsigned i = 0; i < 2; i++) {
		setup();
		if (i)
			world_config->flags = ABI_FLAG_NO_SYSCALL;
		sys_fake.signal_stack_flags = i ? 0 : SYS_SS_ONSTACK;
		bounds_set(enter_at(2000));
		ck_assert_ptr_eq(enter_at(3000), world_my_slot(1));
		ck_assert_uint_eq(world_my_slot(0)->head.entry_sp, (uint64_t)&stack[2000]);
		/* Two system calls at each level, and one for the signal stack. */
		ck_assert_uint_eq(sys_fake.calls, i ? 0 : 5);
	}
}

/* With SS_AUTODISARM the kernel reports no signal stack while a handler runs; the signal frame
 * holds its bounds. */
HT_TEST(signal_stack_that_is_disarmed)
{
	static const struct {
		size_t lo, words, at;
		uint64_t flags;
		bool in_use;
	} frames[] = {
		{2900, 800, 3500, 0x1234567880000000, true},
		{3000, 800, 3002, 0x80000000, true},
		{2900, 800, 3500, 0x80000001, true},
		{2900, 800, 3500, 0x80000002, false},
		{2900, 800, 3500, 0, false},
		{3001, 800, 3500, 0x80000000, false}, /* rsp is not on that stack */
		{2900, 500, 3500, 0x80000000, false}, /* the signal frame is not on it */
		{2900, 4000, 3500, 0x80000000, false},
		{2900, UINT64_MAX / 8, 3500, 0x80000000, false},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(frames); i++) {
		setup();
		memset(stack, 0, sizeof(stack));
		sys_fake.readable = (const uint8_t *)stack;
		sys_fake.readable_bytes = sizeof(stack);
		sys_fake.signal_stack_flags = SYS_SS_DISABLE;
		stack[frames[i].at] = (uint64_t)&stack[frames[i].lo];
		stack[frames[i].at + 1] = frames[i].flags;
		stack[frames[i].at + 2] = 8 * frames[i].words;
		bounds_set(enter_at(2000));
		ck_assert_msg(enter_at(3000) == world_my_slot(frames[i].in_use), "frame %zu", i);
	}
	/* Memory that cannot be read holds no frame. */
	setup();
	sys_fake.readable = NULL;
	sys_fake.signal_stack_flags = SYS_SS_DISABLE;
	bounds_set(enter_at(2000));
	ck_assert_ptr_eq(enter_at(3000), world_my_slot(0));
}

HT_TEST(key_zero_has_no_slot)
{
	setup();
	sys_fake_thread_pointer = 0;
	world_config->tid_offset = 0;
	ck_assert_ptr_null(enter_at(4000));
	ck_assert_uint_eq(world_control->lost[ABI_LOSS_SLOT_FULL], 1);
}

/* The flags are checked by the first call, and by one whose slot is found at once. */
HT_TEST(flags_that_the_agent_cannot_bear)
{
	for (unsigned i = 0; i < 2; i++) {
		setup();
		if (i)
			thread_leave(world_config, enter_at(4000));
		sys_fake.flags = SYS_FLAGS_ODD & -SYS_FLAGS_ODD;
		ck_assert_ptr_null(enter_at(4000));
		ck_assert_uint_eq(world_control->lost[ABI_LOSS_SLOT_FULL], 1);
		sys_fake.flags = ~(uint64_t)SYS_FLAGS_ODD;
		ck_assert_ptr_nonnull(enter_at(4000));
	}
}

/* A thread without pthreads: the page after its thread control block may be unmapped. */
HT_TEST(a_tid_in_another_page_is_looked_at_by_a_copy)
{
	_Alignas(HT_PAGE_BYTES) static uint8_t pages[2 * HT_PAGE_BYTES];
	for (unsigned i = 0; i < 2; i++) {
		setup();
		sys_fake_thread_pointer = (uint64_t)pages + HT_PAGE_BYTES - WORLD_TID_OFFSET;
		*(uint32_t *)(pages + HT_PAGE_BYTES) = WORLD_TID;
		sys_fake.readable = pages;
		sys_fake.readable_bytes = i ? sizeof(pages) : HT_PAGE_BYTES;
		ck_assert_int_eq(mprotect(pages + HT_PAGE_BYTES, HT_PAGE_BYTES,
					 i ? PROT_READ | PROT_WRITE : PROT_NONE),
			0);
		for (unsigned call = 0; call < 2; call++)
			ck_assert_int_eq(enter_at(4000 - call) != NULL, i);
		ck_assert_uint_eq(world_control->lost[ABI_LOSS_SLOT_FULL], i ? 0 : 2);
		ck_assert_int_eq(mprotect(pages, sizeof(pages), PROT_READ | PROT_WRITE), 0);
	}
}

/* The first word of a thread control block is its own address. Here it is the program's own number,
 * or the address of another block. */
HT_TEST(a_block_that_does_not_name_itself_is_no_threads)
{
	static struct world_tcb other;
	setup();
	world_become(&other, WORLD_TID + 1);
	sys_fake.astray = 64;
	for (unsigned call = 0; call < 2; call++)
		ck_assert_ptr_null(enter_at(4000 - call));
	ck_assert_uint_eq(world_control->lost[ABI_LOSS_SLOT_FULL], 2);
	sys_fake.astray = 0;
	ck_assert_uint_eq(enter_at(4000)->head.tid, WORLD_TID + 1);
}

HT_SUITE("agent/thread")
