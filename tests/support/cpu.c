/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/cpu.h"

#include <string.h>

#include "tests/support/ht_check.h"

struct cpu cpu_before, cpu_after;
uint64_t cpu_stack[64], cpu_entry_sp;
uint32_t cpu_has_avx;

/* A constructor, because the assembly and children of any test read cpu_has_avx. */
static __attribute__((constructor)) void ask_for_avx(void)
{
	cpu_has_avx = __builtin_cpu_supports("avx") ? 1 : 0;
}

__asm__(".text\n"
	".globl cpu_enter, cpu_resume\n"
	"cpu_enter:\n"
	"	push %rbx\n	push %rbp\n	push %r12\n	push %r13\n"
	"	push %r14\n	push %r15\n"
	"	mov %rsp, cpu_entry_sp(%rip)\n"
	"	fxrstor (%rsi)\n"
	"	xor %eax, %eax\n"
	"1:	lea 0x1234567(%rax), %rcx\n"
	"	mov %rcx, -128(%rsp,%rax,8)\n"
	"	inc %eax\n"
	"	cmp $16, %eax\n"
	"	jb 1b\n"
	"	fxsave cpu_before+272(%rip)\n"
	"	cmpl $0, cpu_has_avx(%rip)\n"
	"	je 2f\n"
	"	.irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15\n"
	"	vinsertf128 $1, cpu_before+304+16*\\n(%rip), %ymm\\n, %ymm\\n\n"
	"	vextractf128 $1, %ymm\\n, cpu_before+784+16*\\n(%rip)\n"
	"	.endr\n"
	"2:\n"
	"	jmp *%rdi\n"
	"cpu_resume:\n"
	"	mov %rax, cpu_after+0(%rip)\n	mov %rbx, cpu_after+8(%rip)\n"
	"	mov %rcx, cpu_after+16(%rip)\n	mov %rdx, cpu_after+24(%rip)\n"
	"	mov %rsi, cpu_after+32(%rip)\n	mov %rdi, cpu_after+40(%rip)\n"
	"	mov %rbp, cpu_after+48(%rip)\n	mov %r8, cpu_after+56(%rip)\n"
	"	mov %r9, cpu_after+64(%rip)\n	mov %r10, cpu_after+72(%rip)\n"
	"	mov %r11, cpu_after+80(%rip)\n	mov %r12, cpu_after+88(%rip)\n"
	"	mov %r13, cpu_after+96(%rip)\n	mov %r14, cpu_after+104(%rip)\n"
	"	mov %r15, cpu_after+112(%rip)\n	mov %rsp, cpu_after+120(%rip)\n"
	"	lea cpu_stack+512(%rip), %rsp\n"
	"	pushfq\n"
	"	popq cpu_after+128(%rip)\n"
	"	cld\n"
	"	fxsave cpu_after+272(%rip)\n"
	"	cmpl $0, cpu_has_avx(%rip)\n"
	"	je 3f\n"
	"	.irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15\n"
	"	vextractf128 $1, %ymm\\n, cpu_after+784+16*\\n(%rip)\n"
	"	.endr\n"
	"	vzeroupper\n"
	"3:\n"
	"	fninit\n"
	"	movl $0x1f80, cpu_stack(%rip)\n"
	"	ldmxcsr cpu_stack(%rip)\n"
	"	mov cpu_entry_sp(%rip), %rsp\n"
	"	lea -128(%rsp), %rsi\n"
	"	lea cpu_after+136(%rip), %rdi\n"
	"	mov $16, %ecx\n"
	"	rep movsq\n"
	"	pop %r15\n	pop %r14\n	pop %r13\n	pop %r12\n	pop %rbp\n	"
	"pop %rbx\n"
	"	ret\n");

_Static_assert(offsetof(struct cpu, rsp) == 120, "as the assembly has it");
_Static_assert(offsetof(struct cpu, flags) == 128, "as the assembly has it");
_Static_assert(offsetof(struct cpu, red_zone) == 136, "as the assembly has it");
_Static_assert(offsetof(struct cpu, fx) == 272, "as the assembly has it");
_Static_assert(offsetof(struct cpu, ymm) == 784, "as the assembly has it");

const uint8_t *cpu_odd_fx(void)
{
	static _Alignas(16) uint8_t fx[512];
	static const uint16_t control = 0x0f7f;
	static const uint32_t mxcsr = 0x7fc0;

	for (size_t i = 32; i < 416; i++)
		fx[i] = (uint8_t)(i * 7);
	memcpy(fx, &control, sizeof(control));
	fx[4] = 0xff;
	memcpy(fx + 24, &mxcsr, sizeof(mxcsr));
	return fx;
}

struct user_regs_struct cpu_odd_regs(void)
{
	struct user_regs_struct regs = {.rax = 0x1111111111111111,
		.rbx = 0x8000000000000002,
		.rcx = 3,
		.rdx = 0xffffffffffffffff,
		.rsi = 0x7fffffffffffffff,
		.rdi = 6,
		.rbp = 0x0102030405060708,
		.r8 = 8,
		.r9 = 0x9999999999999999,
		.r10 = 10,
		.r11 = 11,
		.r12 = 0xcccccccccccccccc,
		.r13 = 13,
		.r14 = 0xeeeeeeee,
		.r15 = 0xffffffff00000000,
		.rip = (uint64_t)(uintptr_t)cpu_resume,
		.eflags = CPU_CF | CPU_OF | CPU_DF | CPU_AF};
	return regs;
}

void cpu_check(const struct cpu *before, const struct cpu *after, uint64_t entry_sp,
	const struct user_regs_struct *r)
{
	uint64_t want[] = {r->rax, r->rbx, r->rcx, r->rdx, r->rsi, r->rdi, r->rbp, r->r8, r->r9,
		r->r10, r->r11, r->r12, r->r13, r->r14, r->r15};
	for (size_t i = 0; i < HT_ARRAY_SIZE(want); i++)
		ck_assert_msg(after->gpr[i] == want[i], "register %zu: %lx", i,
			(unsigned long)after->gpr[i]);
	ck_assert_uint_eq(after->rsp, entry_sp);
	ck_assert_msg((after->flags & CPU_FLAGS_RESTORED) == (r->eflags & CPU_FLAGS_RESTORED),
		"flags %lx, not %lx", (unsigned long)after->flags, (unsigned long)r->eflags);
	for (size_t i = 0; i < HT_ARRAY_SIZE(after->red_zone); i++)
		ck_assert_uint_eq(after->red_zone[i], 0x1234567 + i);
	ck_assert_mem_eq(after->fx, before->fx, 416);
	ck_assert_mem_eq(after->ymm, before->ymm, sizeof(after->ymm));
}
