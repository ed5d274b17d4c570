/* SPDX-License-Identifier: Apache-2.0
 *
 * Drives the only process that a worker has seized from stop to stop.
 */
#pragma once

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/user.h>

#include "format/err.h"

/* The signal that waitpid reports for a stop at a system call (PTRACE_O_TRACESYSGOOD). */
#define STOPS_SYSCALL (SIGTRAP | 0x80)

/* Resumes the stopped process with signal `sig`; 0: none. */
HT_MUST_CHECK
struct ht_err *stops_resume(pid_t pid, enum __ptrace_request request, int sig);
/* Waits until the running process stops for heaptap: at an event of ptrace, a system call or a
 * breakpoint. Passes signals on; waits out stops of the whole process (SIGSTOP, Ctrl-Z) and resumes
 * it by `request`. `*ret_lives` is false if the process has ended. A thread that makes an exec has
 * the process's number afterwards. */
HT_MUST_CHECK
struct ht_err *stops_await(
	pid_t pid, enum __ptrace_request request, int *ret_status, bool *ret_lives);
/* stops_resume without a signal, then stops_await. HT_ERR_TARGET_GONE if the process has ended. */
HT_MUST_CHECK
struct ht_err *stops_resume_and_await(pid_t pid, enum __ptrace_request request);
/* The HT_ERR_TARGET_GONE for a process that has ended. */
struct ht_err *stops_ended(pid_t pid);

/* Registers of the stopped process. HT_ERR_TARGET_GONE if it was killed. */
HT_MUST_CHECK
struct ht_err *stops_get_regs(pid_t pid, struct user_regs_struct *ret);
HT_MUST_CHECK
struct ht_err *stops_set_regs(pid_t pid, const struct user_regs_struct *regs);
HT_MUST_CHECK
struct ht_err *stops_get_mask(pid_t pid, uint64_t *ret);
HT_MUST_CHECK
struct ht_err *stops_set_mask(pid_t pid, uint64_t mask);
/* Releases the process with signal `sig`; 0: none. */
HT_MUST_CHECK
struct ht_err *stops_detach(pid_t pid, int sig);
