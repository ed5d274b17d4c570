/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares the registers of a thread before and after a piece of code that must not change them.
 */
#pragma once

#include <sys/user.h>

#include "format/base.h"

enum {
	CPU_CF = 1,
	CPU_PF = 4,
	CPU_AF = 0x10,
	CPU_ZF = 0x40,
	CPU_SF = 0x80,
	CPU_DF = 0x400,
	CPU_OF = 0x800,
	CPU_FLAGS_RESTORED = CPU_CF | CPU_PF | CPU_AF | CPU_ZF | CPU_SF | CPU_DF | CPU_OF
};

struct cpu {
	uint64_t gpr[15]; /* rax rbx rcx rdx rsi rdi rbp r8 .. r15 */
	uint64_t rsp, flags;
	uint64_t red_zone[16];
	_Alignas(16) uint8_t fx[512];
	uint8_t ymm[16][16]; /* the upper halves, where the processor has them */
};

/* Global, because the assembly uses them. A test reads a child's copies through /proc/PID/mem. */
extern struct cpu cpu_before, cpu_after;
extern uint64_t cpu_stack[64], cpu_entry_sp;
extern uint32_t cpu_has_avx;

/* Loads x87 and SSE state from `fx`, and fixed AVX state, stores these in cpu_before, fills the red
 * zone, and jumps to `code`. `code` must continue at cpu_resume, which writes all registers to
 * cpu_after and returns to the caller of cpu_enter. */
void cpu_enter(const void *code, const void *fx);
void cpu_resume(void);

/* x87 and SSE state with something in every register. */
const uint8_t *cpu_odd_fx(void);
/* General registers with a distinct value in each, and cpu_resume as the instruction pointer. */
struct user_regs_struct cpu_odd_regs(void);
/* Fails the test unless `after` has the general registers and flags of `r`, the x87, SSE and AVX
 * state of `before`, the stack pointer `entry_sp`, and the red zone that cpu_enter filled. */
void cpu_check(const struct cpu *before, const struct cpu *after, uint64_t entry_sp,
	const struct user_regs_struct *r);
