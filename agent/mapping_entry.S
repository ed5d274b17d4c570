/* SPDX-License-Identifier: Apache-2.0
 *
 * Targets of the thunks of mmap, whose six arguments occupy all argument registers. They make a
 * frame like that of every hook (agent/rules.c), and push the thunk's address, from r11, as the
 * seventh argument.
 */
	.text

	.globl	heaptap_hook_mmap
	.hidden	heaptap_hook_mmap
	.type	heaptap_hook_mmap, @function
	.globl	heaptap_hook_mmap64
	.hidden	heaptap_hook_mmap64
	.type	heaptap_hook_mmap64, @function
heaptap_hook_mmap:
heaptap_hook_mmap64:
	endbr64
	push	%rbp
	mov	%rsp, %rbp
	push	%r11
	push	%r11
	call	mapping_mmap
	leave
	ret
	.size	heaptap_hook_mmap, . - heaptap_hook_mmap
	.size	heaptap_hook_mmap64, . - heaptap_hook_mmap64

	.section .note.GNU-stack, "", @progbits
