/* SPDX-License-Identifier: Apache-2.0
 *
 * Targets of the thunks of ABI_NEWS. They make a frame like that of every hook (agent/rules.c)
 * while hooks.c calls the plain function. If that returns NULL, they jump to the real operator with
 * registers and stack unchanged, so that no frame of the agent is on the stack when it calls
 * new_handler or throws.
 */
#define THUNK_REAL 8 /* abi_thunk.real */

	.text

	/* The thunk's address is in rcx. Four words keep the stack aligned. */
	.macro	new name, call
	.globl	\name
	.hidden	\name
	.type	\name, @function
	.balign	16
\name:
	endbr64
	push	%rbp
	mov	%rsp, %rbp
	push	%rdi
	push	%rsi
	push	%rdx
	push	%rcx
	mov	%rcx, %rdx
	mov	%rbp, %rcx
	call	\call
	test	%rax, %rax
	je	1f
	leave
	ret
1:
	pop	%rcx
	pop	%rdx
	pop	%rsi
	pop	%rdi
	pop	%rbp
	jmp	*THUNK_REAL(%rcx)
	.size	\name, . - \name
	.endm

	new	heaptap_hook_new_bytes, hooks_new_bytes
	new	heaptap_hook_new_count, hooks_new_count
	new	heaptap_hook_new_aligned, hooks_new_aligned
	new	heaptap_sampled_new_bytes, sampled_hooks_new_bytes
	new	heaptap_sampled_new_count, sampled_hooks_new_count
	new	heaptap_sampled_new_aligned, sampled_hooks_new_aligned

	.section .note.GNU-stack, "", @progbits
