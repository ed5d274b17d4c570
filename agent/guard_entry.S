/* SPDX-License-Identifier: Apache-2.0
 *
 * Targets of the guards' thunks. They pass the arguments to guard.c and jump to the real function
 * with registers and stack unchanged (the seventh argument of syscall lies on the stack). So a
 * thread in the real call has no frame of the guard on its stack.
 */
#define THUNK_REAL 8 /* abi_thunk.real */

	/* No frame here: rsp points to the return address (agent/rules.c). */
	.section .text.guard, "ax", @progbits

	.macro	guard name, show
	.globl	heaptap_guard_\name
	.hidden	heaptap_guard_\name
	.type	heaptap_guard_\name, @function
heaptap_guard_\name:
	endbr64
	call	\show
	jmp	*THUNK_REAL(%r11)
	.size	heaptap_guard_\name, . - heaptap_guard_\name
	.endm

	guard	prctl, show_prctl
	guard	syscall, show_syscall
	guard	execve, show_exec
	guard	execv, show_exec
	guard	execvp, show_exec
	guard	execvpe, show_exec
	guard	execl, show_exec
	guard	execlp, show_exec
	guard	execle, show_exec
	guard	fexecve, show_exec
	guard	execveat, show_exec
	guard	fork, show_fork
	guard	vfork, show_fork
	guard	posix_spawn, show_fork
	guard	posix_spawnp, show_fork
	guard	system, show_fork
	guard	popen, show_fork
	guard	forkpty, show_fork
	guard	daemon, show_fork
	guard	rtld_unlock, show_load

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

	.type show_exec, @function
show_exec:
	save_arguments
	mov	%r11, %rdi
	call	guard_exec
	restore_arguments
	ret
	.size show_exec, . - show_exec

	.type show_fork, @function
show_fork:
	save_arguments
	mov	%r11, %rdi
	call	guard_fork
	restore_arguments
	ret
	.size show_fork, . - show_fork

	.type show_load, @function
show_load:
	save_arguments
	mov	%r11, %rsi
	call	guard_load
	restore_arguments
	ret
	.size show_load, . - show_load

	.section .note.GNU-stack, "", @progbits
