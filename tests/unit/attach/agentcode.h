/* SPDX-License-Identifier: Apache-2.0
 *
 * Code that stands for the agent's code, and bodies of children (tests/support/child.h): of some
 * the main thread is inside that code, of others it only looks so. Included once by a test program.
 */
#pragma once

#include <signal.h>

#include "attach/proof/stackscan.h"
#include "tests/support/child.h"

#define THUNK 0x5a5a00020000ull

/*
 * The code from agent_frame to agent_end stands for the agent. agent_frame calls child_wait, and
 * agent_frame_left is the return address of that call; agent_frame_behind_unknown waits in a callee
 * without unwind table; agent_sleep waits with its PC in the agent; agent_trap raises SIGTRAP
 * there.
 */
void agent_frame(void);
void agent_frame_behind_unknown(void);
void agent_sleep(void);
void agent_trap(void);
extern const char agent_frame_left[], agent_end[];

__asm__(".text\n"
	".globl agent_frame, agent_frame_left, agent_sleep, agent_trap, agent_end\n"
	"agent_frame:\n"
	"	.cfi_startproc\n"
	"	push %rbp\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	call child_wait\n"
	"agent_frame_left:\n"
	"	pop %rbp\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	ret\n"
	"	.cfi_endproc\n"
	"agent_frame_behind_unknown:\n"
	"	.cfi_startproc\n"
	"	push %rbp\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	call unknown_sleep\n"
	"	pop %rbp\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	ret\n"
	"	.cfi_endproc\n"
	"agent_sleep:\n"
	"	.cfi_startproc\n"
	"	mov $34, %eax\n"
	"	syscall\n"
	"	jmp agent_sleep\n"
	"	.cfi_endproc\n"
	"agent_trap:\n"
	"	.cfi_startproc\n"
	"	int3\n"
	"	ret\n"
	"	.cfi_endproc\n"
	"agent_end:\n"
	/* No unwind table covers this code, as in modules linked without .eh_frame_hdr. */
	"	.fill 64, 1, 0x90\n"
	"unknown_sleep:\n"
	"	xor %ebp, %ebp\n"
	"1:	mov $34, %eax\n"
	"	syscall\n"
	"	jmp 1b\n"
	"	.fill 64, 1, 0x90\n");

static const struct stackscan_ranges agentcode = {.text_lo = (raddr_t)agent_frame,
	.text_hi = (raddr_t)agent_end,
	.thunk_lo = THUNK,
	.thunk_hi = THUNK + HT_PAGE_BYTES};

static void outside(const void *arg)
{
	(void)arg;
	child_ready(0);
	child_wait();
}

static void in_frame(const void *arg)
{
	(void)arg;
	child_ready(0);
	agent_frame();
}

static void at_pc(const void *arg)
{
	(void)arg;
	child_ready(0);
	agent_sleep();
}

static void stay(int sig)
{
	(void)sig;
	child_ready(0);
	child_wait();
}

static void in_handler(const void *arg)
{
	(void)arg;
	signal(SIGTRAP, stay);
	agent_trap();
}

static void with_stale_word(const void *arg)
{
	(void)arg;
	volatile raddr_t stale[8];
	for (size_t i = 0; i < HT_ARRAY_SIZE(stale); i++)
		stale[i] = (raddr_t)agent_sleep;
	child_ready((long)stale[0]);
	child_wait();
}

static void lost(const void *arg)
{
	(void)arg;
	child_ready(0);
	__asm__ volatile("xor %%ebp, %%ebp\n"
			 "xor %%esp, %%esp\n"
			 "1: mov $34, %%eax\n"
			 "syscall\n"
			 "jmp 1b" ::
				 : "memory");
}

static void behind_unknown(const void *arg)
{
	(void)arg;
	child_ready(0);
	agent_frame_behind_unknown();
}
