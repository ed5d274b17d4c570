/* SPDX-License-Identifier: Apache-2.0
 *
 * Targets of the thunks in a sampling capture (format/abi_control.h). A few loads and one
 * subtraction recognise a call outside the sample; it jumps to the real function with registers and
 * stack unchanged. The thread is not within the agent during that call, so its thread record need
 * not change. All other calls go to sampled_hooks.c.
 */
#define THUNK_REAL	   8
#define THUNK_CONFIG	   16
#define CONFIG_MASK	   56
#define CONFIG_TO_STATE	   -0x20000
#define CONFIG_TO_SLOTS	   0x8731000
#define CONFIG_TO_FILTER   0x6861000
#define SLOT_SHIFT	   18
#define FILTER_SHIFT	   10
#define FILTER_MASK	   0xfffff
#define SAMPLER_KEY	   2304
#define SAMPLER_COUNTDOWN  2312
#define SAMPLER_PREV_SP	   2320
#define SAMPLER_PREV_PC	   2328
#define GOLDEN		   0x9e3779b97f4a7c15 /* thread.h, thread_slot_index */

	/* No frame here: rsp points to the return address (agent/rules.c). Only rax, r10 and r11
	 * change: the hooked functions have at most four arguments. */
	.section .text.guard, "ax", @progbits

	.macro	function name
	.globl	heaptap_sample_\name
	.hidden	heaptap_sample_\name
	.type	heaptap_sample_\name, @function
	.balign	64
heaptap_sample_\name:
	endbr64
	.endm

	.macro	end name
	.size	heaptap_sample_\name, . - heaptap_sample_\name
	.endm

	/* Falls through if no sample lives near \block. */
	.macro	unless_sampled block, self, name
	mov	THUNK_CONFIG(\self), %r11
	mov	\block, %rax
	shr	$FILTER_SHIFT, %rax
	and	$FILTER_MASK, %eax
	cmpb	$0, CONFIG_TO_FILTER(%r11, %rax)
	jne	heaptap_sampled_\name
	.endm

	/* r10: the thread's slot. A thread whose slot is not at its first place takes the slow
	 * path. */
	.macro	find_slot self, name
	mov	THUNK_CONFIG(\self), %r11
	mov	%fs:0, %rax
	movabs	$GOLDEN, %r10
	imul	%rax, %r10
	shr	$32, %r10
	and	CONFIG_MASK(%r11), %r10
	add	CONFIG_TO_STATE(%r11), %rax
	shl	$SLOT_SHIFT, %r10
	lea	CONFIG_TO_SLOTS(%r11, %r10), %r10
	cmp	%rax, SAMPLER_KEY(%r10)
	jne	heaptap_sampled_\name
	.endm

	/* One instruction, so that a signal handler never sees it half done; subtracts one byte
	 * more for the call. At a point it is undone and sample.c repeats it; a handler in between
	 * sees a value below 0. */
	.macro	count_down size, name
	stc
	sbb	\size, SAMPLER_COUNTDOWN(%r10)
	jc	.Lpoint_\name
	js	.Lpoint_\name
	.endm

	.macro	at_point size, name
.Lpoint_\name:
	stc
	adc	\size, SAMPLER_COUNTDOWN(%r10)
	jmp	heaptap_sampled_\name
	.endm

	.macro	forward self
	mov	(%rsp), %rax
	mov	%rsp, SAMPLER_PREV_SP(%r10)
	mov	%rax, SAMPLER_PREV_PC(%r10)
	jmp	*THUNK_REAL(\self)
	.endm

	.macro	allocate name, size, self
	function \name
	find_slot \self, \name
	count_down \size, \name
	forward	\self
	at_point \size, \name
	end	\name
	.endm

	.macro	reallocate name, old, size, self
	function \name
	unless_sampled \old, \self, \name
	find_slot \self, \name
	count_down \size, \name
	forward	\self
	at_point \size, \name
	end	\name
	.endm

	.macro	release name, self
	function \name
	unless_sampled %rdi, \self, \name
	jmp	*THUNK_REAL(\self)
	end	\name
	.endm

	/* Rare functions, which in some allocators end in a jump to another hooked function. That
	 * call is recognised by its return address into a hook. */
	.macro	long_way name
	function \name
	jmp	heaptap_sampled_\name
	end	\name
	.endm

	allocate malloc, %rdi, %rsi
	allocate mallocx, %rdi, %rdx
	reallocate realloc, %rdi, %rsi, %rdx
	reallocate rallocx, %rdi, %rsi, %rcx
	release	free, %rsi
	release	cfree, %rsi
	release	dallocx, %rdx
	release	sdallocx, %rcx
	release	free_sized, %rdx
	release	free_aligned_sized, %rcx

	.macro	allocate_many name, self
	function \name
	find_slot \self, \name
	mov	%rdi, %rax
	imul	%rsi, %rax
	jo	heaptap_sampled_\name
	count_down %rax, \name
	forward	\self
	at_point %rax, \name
	end	\name
	.endm

	allocate_many calloc, %rdx

	/* A call outside the sample needs no plain function. */
	allocate new_bytes, %rdi, %rcx
	allocate new_aligned, %rdi, %rcx
	allocate_many new_count, %rcx

	long_way posix_memalign
	long_way aligned_alloc
	long_way memalign
	long_way valloc
	long_way pvalloc
	long_way reallocarray
	long_way xallocx

	.section .note.GNU-stack, "", @progbits
