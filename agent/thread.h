/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the slot of a call, by thread pointer and nesting level, and distinguishes a nested call
 * from a stale mark.
 */
#pragma once

#include "agent/config.h"
#include "agent/frame.h"
#include "agent/slot.h"
#include "agent/sys.h"

static inline struct abi_slot *thread_slot_at(const struct abi_config *config, uint64_t index)
{
	return config_slots(config) + (index & config->slot_mask);
}

/* Index at which the search for the slot of `key` begins. */
static inline uint64_t thread_slot_index(uint64_t key)
{
	return key * 0x9e3779b97f4a7c15ull >> 32;
}

/* The key, without nesting level, of the thread whose control block is at `tcb`. */
static inline uint64_t thread_key(uint64_t tcb)
{
	return tcb & ~15ull;
}

/* Reads the tid in the thread control block at `tcb`. A thread that the program made with only a
 * copy of another control block's first words has that other thread's key, and reads that other
 * thread's tid. */
static inline uint32_t thread_tid(const struct abi_config *config, uint64_t tcb)
{
	return load_relaxed((const uint32_t *)(tcb + config->tid_offset));
}

/* Whether the slot belongs to this thread. False: the slot's thread has ended, and this thread
 * reuses its thread control block. */
static inline bool thread_owns(
	const struct abi_config *config, const struct abi_slot *slot, uint64_t tcb)
{
	return !config->tid_offset || thread_tid(config, tcb) == slot->head.tid;
}

/*
 * With the direction flag set, the agent's copies would run backwards over other memory; with
 * alignment checks, its unaligned stores would raise SIGBUS. Allocators need neither flag clear, so
 * a program may call them in that state: the hook only forwards the call.
 */
static inline bool thread_flags_are_odd(void)
{
	return sys_flags() & SYS_FLAGS_ODD;
}

/*
 * If a signal handler jumps out of this function at any instruction, the slot is free or its owner
 * is known: a mark without entry_sp would never be recognised as stale. entry_sp is stored again
 * after the mark because a handler may have used the slot in between.
 */
static inline void thread_mark(struct abi_slot *slot, uint64_t sp, enum abi_slot_state state)
{
	store_release(&slot->head.entry_sp, sp);
	slot_mark(slot, state);
	store_release(&slot->head.entry_sp, sp);
}

/* Marks that the hook enters the real function. Does nothing in a forked child: the slot is the
 * parent's. */
static inline void thread_mark_real(const struct abi_config *config, struct abi_slot *slot)
{
	if (ht_likely(config_alive(config)))
		slot_mark(slot, ABI_SLOT_IN_REAL);
}

/* The slow path of thread_enter: something differs from the thread's call before. */
HT_MUST_CHECK
struct abi_slot *thread_enter_slow(
	const struct abi_thunk *self, const struct thread_frame *frame, enum abi_slot_state state);

/*
 * Enters the hook called from `frame`. Returns the slot to record in, in state `state`, or NULL if
 * the hook must only forward the call (nothing to record, or the loss is counted already).
 */
HT_MUST_CHECK
static inline struct abi_slot *thread_enter(
	const struct abi_thunk *self, const struct thread_frame *frame, enum abi_slot_state state)
{
	const struct abi_config *config = config_of(self);
	uint64_t tcb = sys_thread_pointer(), key = thread_key(tcb);
	struct abi_slot *slot = thread_slot_at(config, thread_slot_index(key));
	if (ht_unlikely(key == 0 || load_relaxed(&slot->head.key) != key ||
			load_relaxed(&slot->head.state) != ABI_SLOT_IDLE ||
			!thread_owns(config, slot, tcb) || thread_flags_are_odd() ||
			!config_recording(config)))
		return thread_enter_slow(self, frame, state);
	thread_mark(slot, (uint64_t)frame->caller_stack, state);
	return slot;
}

/* Leaves the hook that thread_enter entered: marks the slot idle. Does nothing in a forked
 * child. */
static inline void thread_leave(const struct abi_config *config, struct abi_slot *slot)
{
	if (ht_unlikely(!config_alive(config)))
		return;
	slot_mark(slot, ABI_SLOT_IDLE);
}
