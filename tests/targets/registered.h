/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks that heaptap changes nothing that a thread has registered with the kernel, and that only
 * the thread itself can query: the stack for its signal handlers, its restartable sequences, its
 * robust list. registered_look registers the stack, and reads all three.
 */
#pragma once

#include <signal.h>
#include <stddef.h>
#include <sys/rseq.h>
#include <sys/syscall.h>

#include "tests/targets/speak.h"

struct registered {
	char stack[65536];
	stack_t handlers;
	void *robust;
	size_t robust_bytes;
	int sequences;
};

/* Registers the thread's rseq area again. Returns the errno, which depends on whether the area is
 * still registered; -1: the kernel accepted it; 0: this C library has no area. */
static inline int registered_sequences(void)
{
	char *area = (char *)__builtin_thread_pointer() + __rseq_offset;
	if (!__rseq_size)
		return 0;
	return syscall(SYS_rseq, area, 32, 0, RSEQ_SIG) ? errno : -1;
}

static inline void registered_look(struct registered *registered)
{
	stack_t own = {.ss_sp = registered->stack, .ss_size = sizeof(registered->stack)};
	if (sigaltstack(&own, NULL) || sigaltstack(NULL, &registered->handlers) ||
		syscall(SYS_get_robust_list, 0, &registered->robust, &registered->robust_bytes))
		speak_fail("nothing registered: errno %d", errno);
	registered->sequences = registered_sequences();
}

static inline void registered_check(const struct registered *registered)
{
	stack_t now;
	void *robust;
	size_t robust_bytes;
	if (sigaltstack(NULL, &now) || now.ss_sp != registered->handlers.ss_sp ||
		now.ss_size != registered->handlers.ss_size ||
		now.ss_flags != registered->handlers.ss_flags)
		speak_fail("the stack for signals changed");
	if (syscall(SYS_get_robust_list, 0, &robust, &robust_bytes) ||
		robust != registered->robust || robust_bytes != registered->robust_bytes)
		speak_fail("the robust list changed");
	if (registered_sequences() != registered->sequences)
		speak_fail("restartable sequences changed");
}
