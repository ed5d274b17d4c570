/* SPDX-License-Identifier: Apache-2.0
 *
 * Watches over the functions by which the target forbids its threads something (guard_entry.S leads
 * here): takes note, before the real function is called, of what the agent may not do any more. And
 * over those by which it becomes another program, or makes children: the daemon may want to see
 * that.
 */
#pragma once

#include "format/abi_thunk.h"

/* Reached by the thunks of ABI_GUARDS, with the thunk's address in r11: leave every register that
 * holds an argument, and the stack, as they were, and jump to the real function. */
void heaptap_guard_prctl(void);
void heaptap_guard_syscall(void);
void heaptap_guard_execve(void);
void heaptap_guard_execv(void);
void heaptap_guard_execvp(void);
void heaptap_guard_execvpe(void);
void heaptap_guard_execl(void);
void heaptap_guard_execlp(void);
void heaptap_guard_execle(void);
void heaptap_guard_fexecve(void);
void heaptap_guard_execveat(void);
void heaptap_guard_fork(void);
void heaptap_guard_vfork(void);
void heaptap_guard_posix_spawn(void);
void heaptap_guard_posix_spawnp(void);
void heaptap_guard_system(void);
void heaptap_guard_popen(void);
void heaptap_guard_forkpty(void);
void heaptap_guard_daemon(void);

/* What these found in the arguments: prctl(option, mode, ...), and syscall(number, ...), which may
 * be the same. When they return, what the call is about to forbid is not done any more by any
 * thread (but for one that does not get to run for abi_config.wait_cycles_max). */
void guard_prctl(uint64_t option, uint64_t mode, const struct abi_thunk *self);
void guard_syscall(uint64_t number, uint64_t first, uint64_t second, const struct abi_thunk *self);

/* Where the process is followed: waits until the daemon holds this thread, does not want to, or
 * does not answer. Any process but that one, and a thread beside one that waits, goes on. */
void guard_exec(const struct abi_thunk *self);
/* The same for one that is about to make a child; each is counted. */
void guard_fork(const struct abi_thunk *self);
