/* SPDX-License-Identifier: Apache-2.0
 *
 * The registers of a stopped thread by their purpose, after the System V ABI for x86-64 and
 * ptrace(2). Only this file and the stub (stub/stub.c) name them.
 */
#pragma once

#include <sys/user.h>

#include "format/base.h"

#define REGS_SYSCALL_BYTES 2 /* of the system call instruction */
#define REGS_SYSCALL_BYTE                                                                          \
	{                                                                                          \
		0x0f, 0x05                                                                         \
	}
#define REGS_BREAKPOINT 0xcc /* one byte; a thread stops behind it */
#define REGS_RED_ZONE	128u /* bytes below the stack pointer that may be in use */

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

/* Does the thread run 64-bit code? */
static inline bool regs_is_native(const struct user_regs_struct *regs)
{
	return regs->cs == 0x33; /* __USER_CS of Linux */
}

/* Does the thread trap after each instruction? */
static inline bool regs_single_steps(const struct user_regs_struct *regs)
{
	return regs->eflags & (1u << 8);
}

/* The system call in which the thread stopped, or which the stop interrupted; negative: none. */
static inline long regs_call(const struct user_regs_struct *regs)
{
	return (long)regs->orig_rax;
}

#define REGS_ARGS 4u

/* Argument `i` of regs_call. */
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

/* The result of regs_call, or a code internal to the kernel (ERESTARTSYS ...); negative: an
 * error. */
static inline long regs_result(const struct user_regs_struct *regs)
{
	return (long)regs->rax;
}

static inline void regs_set_result(struct user_regs_struct *regs, long result)
{
	regs->rax = (unsigned long long)result;
}

/* For a thread stopped at the entry of a call: makes call `nr` instead. */
static inline void regs_replace_call(struct user_regs_struct *regs, long nr)
{
	regs->orig_rax = (unsigned long long)nr;
}

/* Keeps the kernel from restarting the call and from changing its result. */
static inline void regs_forget_call(struct user_regs_struct *regs)
{
	regs->orig_rax = REGS_NO_CALL;
}

/* Sets the thread back to the call instruction before its PC, with call `nr`. */
static inline void regs_step_back(struct user_regs_struct *regs, long nr)
{
	regs->rax = (unsigned long long)nr;
	regs->rip -= REGS_SYSCALL_BYTES;
}

/* Sends the thread to the call instruction at `insn`, with call `nr`. */
static inline void regs_go_to_call(struct user_regs_struct *regs, raddr_t insn, long nr)
{
	regs->rax = (unsigned long long)nr;
	regs->rip = insn;
	regs_forget_call(regs);
}

/* All registers that may hold an address of code, the PC among them. */
#define REGS_WORDS 16u

static inline unsigned long long *regs_word(struct user_regs_struct *regs, unsigned i)
{
	unsigned long long *word[REGS_WORDS] = {&regs->rax, &regs->rbx, &regs->rcx, &regs->rdx,
		&regs->rsi, &regs->rdi, &regs->rbp, &regs->r8, &regs->r9, &regs->r10, &regs->r11,
		&regs->r12, &regs->r13, &regs->r14, &regs->r15, &regs->rip};
	return word[i];
}
