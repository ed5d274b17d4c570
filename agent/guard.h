/* SPDX-License-Identifier: Apache-2.0
 *
 * Watches over the functions by which the target forbids its threads something (guard_entry.S leads
 * here): takes note, before the real function is called, of what the agent may not do any more.
 */
#pragma once

#include "format/abi_thunk.h"

/* Reached by the thunks of ABI_GUARDS, with the thunk's address in r11: leave every register that
 * holds an argument, and the stack, as they were, and jump to the real function. */
void heaptap_guard_prctl(void);
void heaptap_guard_syscall(void);

/* What these found in the arguments: prctl(option, mode, ...), and syscall(number, ...), which may
 * be the same. When they return, what the call is about to forbid is not done any more by any
 * thread (but for one that does not get to run for abi_config.wait_cycles_max). */
void guard_prctl(uint64_t option, uint64_t mode, const struct abi_thunk *self);
void guard_syscall(uint64_t number, uint64_t first, uint64_t second, const struct abi_thunk *self);
