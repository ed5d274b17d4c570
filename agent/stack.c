/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/stack.h"

#include "agent/gate.h"
#include "agent/sys.h"

#define STACK_OPENS_MAX	    8u
#define STACK_USER_END	    (1ull << 47)
#define STACK_FOREIGN_BYTES (64ull << 20) /* longest reach of a stack of unknown size */
#define STACK_FIRST_BYTES   HT_PAGE_BYTES
#define STACK_FETCHES_MAX   64u
#define STACK_PIECES_MAX    (ABI_COPY_BYTES / HT_PAGE_BYTES + 1)

static bool pid_known(struct stack *stack)
{
	uint64_t before;
	if (stack->pid != 0)
		return true;
	if (!gate_enter(stack->config, stack->slot, &before))
		return false;
	stack->pid = sys_getpid();
	gate_leave(stack->config, stack->slot, before);
	return true;
}

bool stack_open(struct stack *stack, uint64_t sp)
{
	/* Each call after the first means a signal handler on its own stack. A stack with more of
	 * them is forged. */
	if (++stack->opens > STACK_OPENS_MAX)
		return false;
	if (stack_is_primary(stack, sp)) {
		stack->copied = false;
		stack->lo = stack->primary_lo;
		stack->hi = stack->primary_hi;
		return true;
	}
	if (stack->direct_only || sp >= STACK_USER_END || !pid_known(stack))
		return false;
	stack->copied = true;
	stack->lo = sp;
	stack->hi = sp + STACK_FOREIGN_BYTES < STACK_USER_END ? sp + STACK_FOREIGN_BYTES
							      : STACK_USER_END;
	return true;
}

/*
 * Copies up to `bytes` from `address` and returns the number copied. One piece per page:
 * process_vm_readv stops at a bad page only between pieces.
 */
static uint64_t copy_fetch(struct stack *stack, uint64_t address, uint64_t bytes)
{
	struct sys_iovec local = {stack->slot->copy, bytes};
	struct sys_iovec remote[STACK_PIECES_MAX];
	uint64_t pieces = 0, before;
	for (uint64_t at = address, end = address + bytes; at < end; pieces++) {
		uint64_t next = ht_align_down(at, HT_PAGE_BYTES) + HT_PAGE_BYTES;
		remote[pieces].base = (void *)at;
		remote[pieces].bytes = (next < end ? next : end) - at;
		at = next;
	}
	if (!gate_enter(stack->config, stack->slot, &before))
		return 0;
	long copied = sys_process_vm_readv(stack->pid, &local, remote, pieces);
	gate_leave(stack->config, stack->slot, before);
	return copied < 0 || (uint64_t)copied > bytes ? 0 : (uint64_t)copied;
}

bool stack_load_copy(struct stack *stack, uint64_t address, uint64_t *ret)
{
	if (address < stack->copy_lo || address >= stack->copy_hi) {
		if (++stack->fetches > STACK_FETCHES_MAX)
			return false;
		uint64_t bytes = stack->fetches == 1 ? STACK_FIRST_BYTES : ABI_COPY_BYTES;
		stack->copy_lo = address;
		stack->copy_hi = address +
				 ht_align_down(copy_fetch(stack, address, bytes), sizeof(uint64_t));
		if (stack->copy_hi == address)
			return false;
	}
	__builtin_memcpy(ret, stack->slot->copy + (address - stack->copy_lo), sizeof(*ret));
	return true;
}

bool stack_load_near(const struct abi_config *config, struct abi_slot *slot, uint64_t sp,
	uint64_t address, uint64_t *ret)
{
	struct stack stack;
	if ((address ^ sp) < HT_PAGE_BYTES && address % sizeof(uint64_t) == 0) {
		*ret = *(const uint64_t *)address;
		return true;
	}
	stack_init(&stack, config, slot);
	stack.primary_hi = stack.primary_lo;
	return stack_open(&stack, sp) && stack_load(&stack, sp, address, ret);
}
