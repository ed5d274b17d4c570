/* SPDX-License-Identifier: Apache-2.0
 *
 * Code that plays the agent's, and bodies of children (tests/support/child.h) that are in it, or
 * only look so.
 */
#pragma once

#include <signal.h>

#include "attach/proof/stackscan.h"
#include "tests/support/child.h"

#define THUNK 0x5a5a00020000ull

/* Stand for the agent: the thread waits below a frame of theirs, or with its PC in one of them. */
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
	/* Code that no unwind table covers, as in modules linked without .eh_frame_hdr. */
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
