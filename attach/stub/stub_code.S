/* SPDX-License-Identifier: Apache-2.0
 *
 * The bootstrap stub: position-independent code that one thread of the target runs from the slack behind
 * a text segment. It makes a list of system calls and then restores every register by itself, so that
 * the thread comes back even if heaptap is dead. It uses no stack, touches no vector register, and
 * writes no memory but the handshake words in struct abi_control (and what the calls write).
 *
 *   rbp  data + STUB_BASE          r12  saved descriptor        r14  saved socket pair, both halves
 *   rbx  current call              r13  second saved descriptor r15  when it became ready, ns
 */
#include "attach/stub/stub_layout.h"

	.section .rodata
	.balign 16
	.globl stub_begin, stub_data, stub_end
	.hidden stub_begin, stub_data, stub_end
stub_begin:
	lea	stub_data + STUB_BASE(%rip), %rbp
	lea	STUB_CALLS - STUB_BASE(%rbp), %rbx
	or	$-1, %r12
	or	$-1, %r13
	or	$-1, %r14

next_call:
	movswq	CALL_NR(%rbx), %rax
	test	%eax, %eax
	js	list_end
	mov	CALL_ARG(0)(%rbx), %rdi
	mov	CALL_ARG(1)(%rbx), %rsi
	mov	CALL_ARG(2)(%rbx), %rdx
	movslq	CALL_ARG3(%rbx), %r10
	or	$-1, %r8
	mov	CALL_ARG5(%rbx), %r9d
	movzwl	CALL_FLAGS(%rbx), %ecx
	mov	%r14, %r11
	sar	$32, %r11
	test	$STUB_ARG0_FD, %cl
	cmovnz	%r12, %rdi
	test	$STUB_ARG0_HIGH, %cl
	cmovnz	%r13, %rdi
	test	$STUB_ARG0_RIGHT, %cl
	cmovnz	%r11, %rdi
	movslq	%r14d, %r11
	test	$STUB_ARG0_LEFT, %cl
	cmovnz	%r11, %rdi
	test	$STUB_ARG4_FD, %cl
	cmovnz	%r12, %r8
	test	$STUB_SAVE_PAIR, %cl
	cmovnz	STUB_PAIR - STUB_BASE(%rbp), %r10
	test	$STUB_IF_MARKED >> 8, %ch
	jz	1f
	mov	$STUB_SYS_FCNTL, %eax
	mov	$STUB_F_GETSIG, %esi
	syscall
	cmp	$STUB_MARK, %eax
	jne	failed
	movzwl	CALL_NR(%rbx), %eax
	mov	CALL_ARG(1)(%rbx), %rsi
1:	syscall
	cmp	$-4095, %rax
	jae	failed
	movzwl	CALL_FLAGS(%rbx), %ecx
	test	$STUB_SAVE_HIGH, %cl
	cmovnz	%rax, %r13
	mov	%rax, %r8
	test	$STUB_SAVE_FD, %cl
	cmovnz	%rax, %r12
	jnz	mark
	test	$STUB_SAVE_PAIR, %cl
	jz	passed
	mov	(%r10), %r14
	mov	%r14, %r8
	/* Mark the file at once: another thread may close the descriptor, and its number lead to
	 * another file then. Undoing does not close a descriptor whose file has no mark. */
mark:	mov	%r8d, %edi
	mov	$STUB_SYS_FCNTL, %eax
	mov	$STUB_F_SETSIG, %esi
	mov	$STUB_MARK, %edx
	syscall
	shr	$32, %r8
	jnz	mark
passed:
	add	$STUB_CALL_BYTES, %rbx
	jmp	next_call

failed:
	testb	$STUB_MAY_FAIL >> 8, CALL_FLAGS + 1(%rbx)
	jnz	passed
	/* Unmap the near areas that are mapped so far. r15 is free: no lease runs any more. */
undo:
	mov	%rbx, %r15
	lea	STUB_CALLS + STUB_AREAS * STUB_CALL_BYTES - STUB_BASE(%rbp), %rbx
2:	cmp	%r15, %rbx
	jae	7f
	testb	$STUB_IS_AREA >> 8, CALL_FLAGS + 1(%rbx)
	jz	7f
	mov	CALL_ARG(0)(%rbx), %rdi
	mov	CALL_ARG(1)(%rbx), %rsi
	mov	$STUB_SYS_MUNMAP, %eax
	syscall
	add	$STUB_CALL_BYTES, %rbx
	jmp	2b
7:	movzwl	CALL_UNDO(%r15), %ebx
	lea	-STUB_BASE(%rbp, %rbx), %rbx
	jmp	next_call

list_end:
	mov	STUB_CONTROL - STUB_BASE(%rbp), %r11
	cmp	$STUB_END_PLAIN, %rax
	je	restore
	cmp	$STUB_END_TAKEN, %rax
	je	done
	/* The agent reads the TSC, which the program may have forbidden this thread. */
	mov	$STUB_SYS_PRCTL, %eax
	mov	$STUB_PR_GET_TSC, %edi
	lea	STUB_TSC_OFF(%r11), %rsi
	syscall
	mov	STUB_CONTROL - STUB_BASE(%rbp), %r11
	/* The lease: say "ready" and wait a bounded time for "taken". */
	mov	%r13d, STUB_FDS_OFF(%r11)
	mov	%r12d, STUB_FDS_OFF+4(%r11)
	movq	$STUB_READY, STUB_STATUS_OFF(%r11)
	xor	%r15d, %r15d
3:	mov	STUB_CONTROL - STUB_BASE(%rbp), %r11
	cmpq	$0, STUB_TAKEN_OFF(%r11)
	jne	taken
	mov	$STUB_SYS_CLOCK_GETTIME, %eax
	mov	$STUB_CLOCK_MONOTONIC, %edi
	lea	STUB_TIME_OFF(%r11), %rsi
	syscall
	test	%rax, %rax
	jnz	5f
	imul	$1000000000, (%rsi), %rax
	add	8(%rsi), %rax
	test	%r15, %r15
	cmovz	%rax, %r15
	sub	%r15, %rax
	mov	STUB_LEASE - STUB_BASE(%rbp), %rcx
	cmp	%rcx, %rax
	jae	5f
	mov	STUB_SPIN - STUB_BASE(%rbp), %ecx
	cmp	%rcx, %rax
	pause
	jb	3b
	/* The answer may have come while the thread waited for the core. */
	cmpq	$0, STUB_TAKEN_OFF - STUB_TIME_OFF(%rsi)
	jne	3b
	/* A thread that yields waits until all threads that want the core have had it. A thread
	 * that sleeps does so by select: it leaves current->restart_block alone (stub.c add_hold),
	 * and is not the call by which heaptap recognizes the end of the stub. */
	mov	$STUB_SYS_SCHED_YIELD, %eax
	mov	STUB_NAP - STUB_BASE(%rbp), %ecx
	jrcxz	6f
	xor	%edi, %edi
	mov	%rdi, (%rsi)
	mov	%rcx, 8(%rsi)
	mov	%rsi, %r8
	xor	%esi, %esi
	xor	%edx, %edx
	xor	%r10d, %r10d
	mov	$STUB_SYS_SELECT, %eax
6:	syscall
	jmp	3b
5:
	/* The daemon may answer at this instant: the exchange decides which came first. */
	mov	STUB_CONTROL - STUB_BASE(%rbp), %r11
	xor	%eax, %eax
	mov	$STUB_EXPIRED, %edx
	lock cmpxchg %rdx, STUB_TAKEN_OFF(%r11)
	je	undo
taken:
	/* Any other value: the daemon has ended the lease. */
	cmpq	$STUB_TAKEN, STUB_TAKEN_OFF(%r11)
	jne	undo
	jmp	passed

done:
	movq	$STUB_DONE, STUB_STATUS_OFF(%r11)
	jmp	passed

restore:
	cld
	cmpq	$0, STUB_FLAG_DF - STUB_BASE(%rbp)
	je	4f
	std
4:	mov	STUB_REG(1) - STUB_BASE(%rbp), %rbx
	mov	STUB_REG(2) - STUB_BASE(%rbp), %rcx
	mov	STUB_REG(3) - STUB_BASE(%rbp), %rdx
	mov	STUB_REG(4) - STUB_BASE(%rbp), %rsi
	mov	STUB_REG(5) - STUB_BASE(%rbp), %rdi
	mov	STUB_REG(7) - STUB_BASE(%rbp), %r8
	mov	STUB_REG(8) - STUB_BASE(%rbp), %r9
	mov	STUB_REG(9) - STUB_BASE(%rbp), %r10
	mov	STUB_REG(10) - STUB_BASE(%rbp), %r11
	mov	STUB_REG(11) - STUB_BASE(%rbp), %r12
	mov	STUB_REG(12) - STUB_BASE(%rbp), %r13
	mov	STUB_REG(13) - STUB_BASE(%rbp), %r14
	mov	STUB_REG(14) - STUB_BASE(%rbp), %r15
	/* 0x7f + OF overflows exactly when OF is to be set; sahf sets the other five and leaves OF. */
	mov	STUB_FLAG_OF - STUB_BASE(%rbp), %al
	mov	STUB_FLAGS_AH+1 - STUB_BASE(%rbp), %ah
	add	$0x7f, %al
	sahf
	mov	STUB_REG(0) - STUB_BASE(%rbp), %rax
	mov	STUB_REG(6) - STUB_BASE(%rbp), %rbp
	jmp	*stub_data+STUB_RIP(%rip)

	.balign 8
stub_data:
stub_end:

	.section .note.GNU-stack, "", @progbits
