/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/thread.h"

#include "agent/config.h"
#include "agent/gate.h"
#include "agent/nested.h"
#include "agent/sigstack.h"
#include "agent/slot.h"
#include "agent/stream.h"
#include "agent/sys.h"

/* A thread that finds no slot within so many probes gives up: the table is then about nine tenths
 * full. */
#define THREAD_PROBES_MAX 128u

static uint32_t tid_now(const struct abi_config *config, struct abi_slot *slot)
{
	uint64_t before;
	if (config->tid_offset)
		return thread_tid(config, sys_thread_pointer());
	if (!gate_enter(config, slot, &before))
		return 0;
	uint32_t tid = (uint32_t)sys_gettid();
	gate_leave(config, slot, before);
	return tid;
}

/*
 * Gives the slot to a new thread. The daemon reads incarnation, tid, incarnation: the odd value
 * around the tid prevents it from giving the old thread's stack bounds to the new one.
 */
static void slot_adopt(const struct abi_config *config, struct abi_slot *slot)
{
	struct abi_slot_head *head = &slot->head;
	if (!config_alive(config))
		return;
	uint32_t odd = head->incarnation | 1;
	store_release(&head->incarnation, odd);
	store_release(&head->tid, tid_now(config, slot));
	store_release(&head->abandoned, 0);
	store_release(&head->unbooked_lo, 0);
	store_release(&head->unbooked_hi, 0);
	store_release(&head->incarnation, odd + 1);
}

static void slot_note_claim(const struct abi_config *config, const struct abi_slot *slot)
{
	struct abi_control *control = config_control(config);
	uint64_t index = (uint64_t)(slot - config_slots(config));
	fetch_or(&control->claimed[index / 64 % HT_ARRAY_SIZE(control->claimed)],
		1ull << index % 64);
}

/*
 * Checked at a thread's first call: only the thread itself can see that it forbade itself the clock
 * (PR_SET_TSC) before the attach. False: recording stops.
 */
static bool clock_is_readable(const struct abi_config *config, struct abi_slot *slot)
{
	uint64_t before;
	if (!gate_enter(config, slot, &before))
		return true;
	bool is_forbidden = sys_tsc_forbidden();
	gate_leave(config, slot, before);
	if (is_forbidden)
		config_forbid(config, ABI_FORBIDDEN_CLOCK);
	return !is_forbidden;
}

/*
 * Checked at a thread's first call: a program that calls clone itself and whose allocator needs no
 * thread-local storage may give the thread a short thread control block, which need not begin with
 * its own address either.
 */
static HT_NOINLINE bool tid_is_readable(const struct abi_config *config, struct abi_slot *slot)
{
	uint64_t before, tcb = sys_thread_pointer(), at = tcb + config->tid_offset;
	uint32_t tid;
	struct sys_iovec local = {&tid, sizeof(tid)}, remote = {(void *)at, sizeof(tid)};
	if (!gate_enter(config, slot, &before))
		return true;
	/* A seccomp filter may refuse these calls: the thread control block is then taken as
	 * readable. */
	uint64_t base = sys_thread_base();
	bool is_readable = !base || base == tcb;
	if (is_readable && at / HT_PAGE_BYTES != tcb / HT_PAGE_BYTES)
		is_readable = sys_process_vm_readv(sys_getpid(), &local, &remote, 1) != -SYS_EFAULT;
	gate_leave(config, slot, before);
	return is_readable;
}

/* Claims the slot. False: another thread has claimed it. `*ret` is NULL if this thread cannot have
 * a slot. */
static bool slot_claim(const struct abi_config *config, struct abi_slot *slot, uint64_t seen,
	uint64_t key, struct abi_slot **ret)
{
	*ret = NULL;
	/* First: a reader that sees the key must also see this bit. */
	slot_note_claim(config, slot);
	if (!compare_swap(&slot->head.key, &seen, key))
		return false;
	/* The last owner may have died inside a hook. A signal handler must not take our claim for
	 * that hook (hook_ended). */
	store_release(&slot->head.entry_sp, 0);
	slot_mark(slot, ABI_SLOT_RECORDING);
	store_release(&slot->head.entry_sp, 0);
	store_release(&slot->head.calling, 0);
	bool is_readable = tid_is_readable(config, slot);
	if (is_readable && clock_is_readable(config, slot)) {
		stream_restart(config, slot);
		slot_adopt(config, slot);
		stream_announce(config, slot);
	}
	if (!config_alive(config))
		return true;
	slot_mark(slot, ABI_SLOT_IDLE);
	if (is_readable)
		*ret = slot;
	else
		store_release(&slot->head.key, key | ABI_SLOT_DEAD);
	return true;
}

/* Finds the slot of `key` or claims one. NULL: none left, or this thread cannot have one. */
static HT_NOINLINE struct abi_slot *slot_search(const struct abi_config *config, uint64_t key)
{
	uint64_t start = thread_slot_index(key);
	for (;;) {
		struct abi_slot *free_slot = NULL;
		uint64_t free_key = 0;
		for (uint64_t i = 0; i < THREAD_PROBES_MAX && i <= config->slot_mask; i++) {
			struct abi_slot *slot = thread_slot_at(config, start + i);
			uint64_t found = load_acquire(&slot->head.key);
			if (found == key)
				return slot;
			if (found != 0 && !(found & ABI_SLOT_DEAD))
				continue;
			if (!free_slot) {
				free_slot = slot;
				free_key = found;
			}
			if (found == 0)
				break;
		}
		if (!free_slot)
			return NULL;
		struct abi_slot *mine;
		if (slot_claim(config, free_slot, free_key, key, &mine))
			return mine;
	}
}

static struct abi_slot *slot_find(const struct abi_config *config, uint64_t key)
{
	struct abi_slot *slot = thread_slot_at(config, thread_slot_index(key));
	return ht_likely(load_relaxed(&slot->head.key) == key) ? slot : slot_search(config, key);
}

static bool on_primary_stack(
	const struct abi_config *config, struct abi_slot *slot, uint64_t sp, uint64_t hi)
{
	uint64_t before;
	if (!gate_enter(config, slot, &before))
		return false;
	bool is_primary = !sigstack_is_in_use(sp, hi);
	gate_leave(config, slot, before);
	return is_primary;
}

/*
 * Whether the hook that marked the slot has ended without leaving it, because a signal handler
 * jumped out of it. Addresses show the order of calls only within one stack, and a signal stack may
 * be an array in a frame of the primary one.
 */
static HT_NOINLINE bool hook_abandoned(
	const struct abi_config *config, struct abi_slot *slot, uint64_t sp)
{
	uint64_t lo, hi, entry_sp = slot->head.entry_sp;
	return slot_bounds(&slot->head, &lo, &hi) && lo <= entry_sp && entry_sp <= sp && sp < hi &&
	       on_primary_stack(config, slot, sp, hi);
}

/*
 * Whether the thread that marked the slot has ended within its hook (cancelled by a handler) and
 * this thread reuses its thread control block. A claim interrupted by a handler has entry_sp 0 and
 * does not count.
 */
static bool hook_ended(const struct abi_config *config, const struct abi_slot *slot, uint64_t tcb)
{
	return load_relaxed(&slot->head.entry_sp) != 0 && !thread_owns(config, slot, tcb);
}

/* Notes a hook without a slot, entered at `sp`: a coroutine on its own stack may wait in this hook.
 */
static void note_unbooked(struct abi_slot_head *outer, uint64_t sp)
{
	if (!outer->unbooked_hi || sp < outer->unbooked_lo)
		store_release(&outer->unbooked_lo, sp);
	if (sp > outer->unbooked_hi)
		store_release(&outer->unbooked_hi, sp);
}

/* The slow part of thread_enter: the thread's first slot is busy. The returned slot may be busy
 * too. */
static HT_NOINLINE struct abi_slot *slot_nested(const struct abi_thunk *self,
	const struct thread_frame *frame, struct abi_slot *outer, uint64_t tcb)
{
	const struct abi_config *config = config_of(self);
	uint64_t sp = (uint64_t)frame->caller_stack;
	struct abi_slot *slot = outer;
	for (uint64_t level = 0;;) {
		if (slot->head.state == ABI_SLOT_IDLE || hook_ended(config, slot, tcb))
			return slot;
		if (hook_abandoned(config, slot, sp)) {
			/* Store entry_sp first, so that a signal handler sees that this hook owns
			 * the slot. */
			store_release(&slot->head.entry_sp, sp);
			store_release(&slot->head.abandoned, slot->head.abandoned + 1);
			store_release(&slot->head.calling, 0);
			stream_restart(config, slot);
			return slot;
		}
		if (nested_in(self, slot, frame))
			return NULL;
		if (++level == ABI_NEST_MAX) {
			note_unbooked(&outer->head, sp);
			count_add(&outer->head.lost[ABI_LOSS_NESTED], 1);
			return NULL;
		}
		slot = slot_find(config, thread_key(tcb) + level);
		if (!slot) {
			note_unbooked(&outer->head, sp);
			count_add(&outer->head.lost[ABI_LOSS_SLOT_FULL], 1);
			return NULL;
		}
	}
}

HT_NOINLINE struct abi_slot *thread_enter_slow(
	const struct abi_thunk *self, const struct thread_frame *frame, enum abi_slot_state state)
{
	const struct abi_config *config = config_of(self);
	if (!config_recording(config))
		return NULL;
	uint64_t tcb = sys_thread_pointer(), key = thread_key(tcb);
	uint64_t sp = (uint64_t)frame->caller_stack;
	struct abi_slot *slot = key && !thread_flags_are_odd() ? slot_find(config, key) : NULL;
	/* A signal handler that interrupted the search may have forked. */
	if (!config_alive(config))
		return NULL;
	if (!slot) {
		struct abi_control *control = config_control(config);
		fetch_add(&control->lost[ABI_LOSS_SLOT_FULL], 1);
		return NULL;
	}
	if (load_relaxed(&slot->head.state) != ABI_SLOT_IDLE) {
		slot = slot_nested(self, frame, slot, tcb);
		if (!slot || !config_alive(config))
			return NULL;
	}
	if (thread_owns(config, slot, tcb)) {
		thread_mark(slot, sp, state);
		return slot;
	}
	bool has_ended = load_relaxed(&slot->head.state) != ABI_SLOT_IDLE;
	thread_mark(slot, sp, ABI_SLOT_RECORDING);
	slot_adopt(config, slot);
	if (!config_alive(config))
		return NULL;
	/* A signal handler that ran before the new tid was stored took this hook for that of an
	 * ended thread. */
	thread_mark(slot, sp, ABI_SLOT_RECORDING);
	if (has_ended)
		store_release(&slot->head.calling, 0);
	if (clock_is_readable(config, slot)) {
		/* The ended hook may have left the delta state half written. */
		if (has_ended)
			stream_restart(config, slot);
		else
			stream_announce(config, slot);
	}
	if (!config_alive(config))
		return NULL;
	slot_mark(slot, state);
	return slot;
}
