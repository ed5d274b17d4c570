/* SPDX-License-Identifier: Apache-2.0
 *
 * A process that a worker (target/worker.h) has seized, as its only one, from stop to stop.
 */
#pragma once

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/user.h>

#include "format/err.h"

/* What waitpid calls the stop at a system call (PTRACE_O_TRACESYSGOOD). */
#define STOPS_SYSCALL (SIGTRAP | 0x80)

/* Lets the stopped process go on, with signal `sig`, 0: none. */
HT_MUST_CHECK
struct ht_err *stops_resume(pid_t pid, enum __ptrace_request request, int sig);
/*
 * Waits until the running process stops for us: an event of ptrace, a system call, a point. Signals
 * on their way to it arrive, stops of the whole process (SIGSTOP, Ctrl-Z) are kept until they are
 * over; then it goes on by `request`. False in `ret_lives`: it has ended. A thread that execs has
 * its process's number from then on.
 */
HT_MUST_CHECK
struct ht_err *stops_await(
	pid_t pid, enum __ptrace_request request, int *ret_status, bool *ret_lives);
/* Both. HT_ERR_TARGET_GONE: it has ended. */
HT_MUST_CHECK
struct ht_err *stops_go(pid_t pid, enum __ptrace_request request);
/* HT_ERR_TARGET_GONE, in words. */
struct ht_err *stops_ended(pid_t pid);

/* Of the stopped process; HT_ERR_TARGET_GONE when it was killed. */
HT_MUST_CHECK
struct ht_err *stops_get_regs(pid_t pid, struct user_regs_struct *ret);
HT_MUST_CHECK
struct ht_err *stops_set_regs(pid_t pid, const struct user_regs_struct *regs);
HT_MUST_CHECK
struct ht_err *stops_get_mask(pid_t pid, uint64_t *ret);
HT_MUST_CHECK
struct ht_err *stops_set_mask(pid_t pid, uint64_t mask);
/* Lets it go, with signal `sig` of its own; 0: none. */
HT_MUST_CHECK
struct ht_err *stops_detach(pid_t pid, int sig);
