/* SPDX-License-Identifier: Apache-2.0
 *
 * The gate before every system call of the agent. If the target runs under a seccomp filter, the
 * gate is closed from the start. When the target is about to install one, the guard (guard.c)
 * closes the gate and waits for system calls of the agent in progress, so that none runs when the
 * filter is in force. The daemon does the same before it removes the guards.
 */
#pragma once

#include "agent/config.h"

/* False: make no system call. True: make the call, then call gate_leave with `*ret_before`. */
HT_MUST_CHECK
static inline bool gate_enter(
	const struct abi_config *config, struct abi_slot *slot, uint64_t *ret_before)
{
	const struct abi_control *control = config_control(config);
	if (config->flags & ABI_FLAG_NO_SYSCALL || !config_alive(config))
		return false;
	/* A full barrier: either this thread sees the gate closed, or the thread that closes it
	 * sees the mark. */
	*ret_before = exchange(&slot->head.calling, 1);
	if (ht_likely(!load_acquire(&control->forbidden) && !load_acquire(&config->stop)))
		return true;
	store_relaxed(&slot->head.calling, *ret_before);
	return false;
}

/* As gate_enter, for a thread that may have no slot: `calling` is the mark to use instead of the
 * slot's; the caller clears it after the call. Only one thread may use a mark at a time. */
HT_MUST_CHECK
static inline bool gate_enter_by(const struct abi_config *config, uint64_t *calling)
{
	const struct abi_control *control = config_control(config);
	if (config->flags & ABI_FLAG_NO_SYSCALL)
		return false;
	(void)exchange(calling, 1);
	if (!load_acquire(&control->forbidden) && !load_acquire(&config->stop))
		return true;
	store_release(calling, 0);
	return false;
}

static inline void gate_leave(
	const struct abi_config *config, struct abi_slot *slot, uint64_t before)
{
	if (ht_likely(config_alive(config)))
		store_release(&slot->head.calling, before);
}
