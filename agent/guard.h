/* SPDX-License-Identifier: Apache-2.0
 *
 * Guards (reached through guard_entry.S). Before the target forbids its threads system calls or the
 * clock, a guard notes that the agent must no longer make system calls or read the clock. Before
 * the target execs or makes a child, a guard asks the daemon, if the capture follows it.
 */
#pragma once

#include "format/abi_thunk.h"

/* Targets of the thunks of ABI_GUARDS, with the thunk's address in r11. They preserve the stack and
 * every register that holds an argument, and jump to the real function. */
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

/* Called with the arguments of prctl(option, mode, ...) and syscall(number, ...); syscall may
 * itself call prctl. When they return, no thread is in a system call of the agent, except one that
 * has not left it within abi_config.wait_cycles_max, and the agent begins nothing that the call is
 * about to forbid. */
void guard_prctl(uint64_t option, uint64_t mode, const struct abi_thunk *self);
void guard_syscall(uint64_t number, uint64_t first, uint64_t second, const struct abi_thunk *self);

/* If the capture follows this process: waits until the daemon holds this thread, lets it go on, or
 * does not answer in time. Returns at once in any other process, and while another thread waits. */
void guard_exec(const struct abi_thunk *self);
/* As guard_exec, before a call that makes a child; counts each such call. */
void guard_fork(const struct abi_thunk *self);
