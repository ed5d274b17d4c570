/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the thunks of prctl and syscall lead: the arguments are shown to guard.c, and the real
 * function is jumped to with registers and stack as they were (the seventh argument of syscall lies
 * there), so that no thread is ever within a guard while it is within the call.
 */
#define THUNK_REAL 8 /* abi_thunk.real */

	/* No frame here: the return address is what rsp points to (agent/rules.c). */
	.section .text.guard, "ax", @progbits

	.globl heaptap_guard_prctl
	.hidden heaptap_guard_prctl
	.type heaptap_guard_prctl, @function
heaptap_guard_prctl:
	endbr64
	call	show_prctl
	jmp	*THUNK_REAL(%r11)
	.size heaptap_guard_prctl, . - heaptap_guard_prctl

	.globl heaptap_guard_syscall
	.hidden heaptap_guard_syscall
	.type heaptap_guard_syscall, @function
heaptap_guard_syscall:
	endbr64
	call	show_syscall
	jmp	*THUNK_REAL(%r11)
	.size heaptap_guard_syscall, . - heaptap_guard_syscall

	.text

	/* rax counts the vector registers of a variadic call. Nine words keep the stack aligned. */
	.macro	save_arguments
	push	%rbp
	mov	%rsp, %rbp
	push	%rax
	push	%rdi
	push	%rsi
	push	%rdx
	push	%rcx
	push	%r8
	push	%r9
	push	%r10
	push	%r11
	.endm

	.macro	restore_arguments
	pop	%r11
	pop	%r10
	pop	%r9
	pop	%r8
	pop	%rcx
	pop	%rdx
	pop	%rsi
	pop	%rdi
	pop	%rax
	pop	%rbp
	.endm

	.type show_prctl, @function
show_prctl:
	save_arguments
	mov	%r11, %rdx
	call	guard_prctl
	restore_arguments
	ret
	.size show_prctl, . - show_prctl

	.type show_syscall, @function
show_syscall:
	save_arguments
	mov	%r11, %rcx
	call	guard_syscall
	restore_arguments
	ret
	.size show_syscall, . - show_syscall

	.section .note.GNU-stack, "", @progbits
