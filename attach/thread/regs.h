/* SPDX-License-Identifier: Apache-2.0
 *
 * The registers of a stopped thread by what they are for: what stands where follows the System V
 * ABI for x86-64 and ptrace(2). Nobody else but the stub (inject/stub.c) knows them by name.
 */
#pragma once

#include <sys/user.h>

#include "format/base.h"

#define REGS_SYSCALL_BYTES 2 /* of the instruction that makes a call */
#define REGS_SYSCALL_BYTE                                                                          \
	{                                                                                          \
		0x0f, 0x05                                                                         \
	}
#define REGS_BREAKPOINT 0xcc /* one byte; the thread stops behind it */
#define REGS_RED_ZONE	128u /* bytes below the stack pointer that are in use */

#define REGS_NO_CALL ((unsigned long long)-1)

static inline raddr_t regs_pc(const struct user_regs_struct *regs)
{
	return regs->rip;
}

static inline void regs_set_pc(struct user_regs_struct *regs, raddr_t pc)
{
	regs->rip = pc;
}

static inline raddr_t regs_sp(const struct user_regs_struct *regs)
{
	return regs->rsp;
}

static inline raddr_t regs_thread_pointer(const struct user_regs_struct *regs)
{
	return regs->fs_base;
}

/* Does it run 64-bit code? */
static inline bool regs_is_native(const struct user_regs_struct *regs)
{
	return regs->cs == 0x33; /* __USER_CS of Linux */
}

/* Does each of its instructions trap? */
static inline bool regs_single_steps(const struct user_regs_struct *regs)
{
	return regs->eflags & (1u << 8);
}

/* The call in which it was stopped, or out of which the stop took it; negative: none. */
static inline long regs_call(const struct user_regs_struct *regs)
{
	return (long)regs->orig_rax;
}

#define REGS_ARGS 4u

/* Argument `i` of that call. */
static inline uint64_t regs_arg(const struct user_regs_struct *regs, unsigned i)
{
	const uint64_t arg[REGS_ARGS] = {regs->rdi, regs->rsi, regs->rdx, regs->r10};
	return arg[i];
}

static inline void regs_set_args(struct user_regs_struct *regs, const uint64_t arg[REGS_ARGS])
{
	regs->rdi = arg[0];
	regs->rsi = arg[1];
	regs->rdx = arg[2];
	regs->r10 = arg[3];
}

/* What the call returns, or a code of the kernel's own (ERESTARTSYS ...); negative: an error. */
static inline long regs_result(const struct user_regs_struct *regs)
{
	return (long)regs->rax;
}

static inline void regs_set_result(struct user_regs_struct *regs, long result)
{
	regs->rax = (unsigned long long)result;
}

/* A thread stopped as it enters a call makes this one instead. */
static inline void regs_replace_call(struct user_regs_struct *regs, long nr)
{
	regs->orig_rax = (unsigned long long)nr;
}

/* The kernel has no call to make again, or to change the result of. */
static inline void regs_forget_call(struct user_regs_struct *regs)
{
	regs->orig_rax = REGS_NO_CALL;
}

/* Where the thread goes on it makes call `nr` by the instruction before that place. */
static inline void regs_step_back(struct user_regs_struct *regs, long nr)
{
	regs->rax = (unsigned long long)nr;
	regs->rip -= REGS_SYSCALL_BYTES;
}

/* The thread makes call `nr` by the instruction at `insn`. */
static inline void regs_go_to_call(struct user_regs_struct *regs, raddr_t insn, long nr)
{
	regs->rax = (unsigned long long)nr;
	regs->rip = insn;
	regs_forget_call(regs);
}

/* All that may hold an address of code that is to be called, the PC among them. */
#define REGS_WORDS 16u

static inline unsigned long long *regs_word(struct user_regs_struct *regs, unsigned i)
{
	unsigned long long *word[REGS_WORDS] = {&regs->rax, &regs->rbx, &regs->rcx, &regs->rdx,
		&regs->rsi, &regs->rdi, &regs->rbp, &regs->r8, &regs->r9, &regs->r10, &regs->r11,
		&regs->r12, &regs->r13, &regs->r14, &regs->r15, &regs->rip};
	return word[i];
}
