/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory of one stack during a walk: the thread's primary stack is read directly. Any other
 * stack is read from a copy that the kernel makes, because another thread may unmap it at any time.
 */
#pragma once

#include "agent/slot.h"

struct stack {
	const struct abi_config *config;
	struct abi_slot *slot;
	uint64_t lo, hi;		 /* no address outside is read */
	uint64_t primary_lo, primary_hi; /* equal: unknown */
	bool direct_only;		 /* only the primary stack may be opened */
	bool copied;			 /* read slot->copy, which holds [copy_lo, copy_hi) */
	int32_t pid;
	uint64_t copy_lo, copy_hi;
	uint32_t fetches, opens;
};

/*
 * Initialises a stack that is not open: stack_contains is false for every address. Field by field,
 * because the compiler would clear the whole with a string instruction, which takes 10 ns to start.
 */
static inline void stack_init(
	struct stack *stack, const struct abi_config *config, struct abi_slot *slot)
{
	uint64_t lo, hi;
	bool known = slot_bounds(&slot->head, &lo, &hi) && lo < hi;
	stack->config = config;
	stack->slot = slot;
	stack->lo = stack->hi = 0;
	stack->primary_lo = known ? lo : 0;
	stack->primary_hi = known ? ht_align_down(hi, sizeof(uint64_t)) : 0;
	stack->direct_only = stack->copied = false;
	stack->copy_lo = stack->copy_hi = 0;
	stack->fetches = stack->opens = 0;
	stack->pid = 0;
}

static inline bool stack_is_primary(const struct stack *stack, uint64_t address)
{
	return address >= stack->primary_lo && address < stack->primary_hi;
}

/* Opens the stack that contains `sp`. False: it may not be read. */
HT_MUST_CHECK
bool stack_open(struct stack *stack, uint64_t sp);

/* As stack_open for a walk's first stack. False if that is not the primary stack. */
HT_MUST_CHECK
static inline bool stack_open_primary(struct stack *stack, uint64_t sp)
{
	if (!stack_is_primary(stack, sp))
		return false;
	stack->lo = stack->primary_lo;
	stack->hi = stack->primary_hi;
	stack->opens = 1;
	return true;
}

/* Whether `address` is known to lie in the open stack. */
static inline bool stack_contains(const struct stack *stack, uint64_t address)
{
	if (stack->copied && address - stack->primary_lo < stack->primary_hi - stack->primary_lo)
		return false;
	return address >= stack->lo && address < stack->hi;
}

/* stack_load from the copy, which it fetches if needed. */
HT_MUST_CHECK
bool stack_load_copy(struct stack *stack, uint64_t address, uint64_t *ret);

/* Loads the word at `address`. False: it is not aligned, below `sp`, or not readable. */
HT_MUST_CHECK
static inline bool stack_load(struct stack *stack, uint64_t sp, uint64_t address, uint64_t *ret)
{
	if (ht_unlikely(address & 7 || address < sp || address >= stack->hi))
		return false;
	if (ht_likely(!stack->copied)) {
		*ret = *(const uint64_t *)address;
		return true;
	}
	uint64_t value;
	if (!stack_load_copy(stack, address, &value))
		return false;
	*ret = value;
	return true;
}

/* Loads the word at `address`, which may be unmapped; `sp` is mapped. Reads directly if both are in
 * one page, otherwise through a copy by the kernel. */
HT_MUST_CHECK
bool stack_load_near(const struct abi_config *config, struct abi_slot *slot, uint64_t sp,
	uint64_t address, uint64_t *ret);
