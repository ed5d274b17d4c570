/* SPDX-License-Identifier: Apache-2.0
 *
 * The hooks: one function per entry of ABI_HOOKS, found by the daemon in the agent's symbol table,
 * and a second one for captures of a sample. A thunk jumps here with its own address as an extra
 * argument after the function's own. Result and errno are always those of the real function; for an
 * operator new, of the plain function that the hook calls instead (abi_config.plain).
 */
#pragma once

#include "format/abi_hooks.h"
#include "format/abi_thunk.h"

/* `flags` of mallocx and the like is a whole register: other allocators pass an alignment there. */
#define HOOKS_DECLARE(PREFIX)                                                                      \
	void *PREFIX##malloc(size_t size, const struct abi_thunk *self);                           \
	void *PREFIX##calloc(size_t count, size_t size, const struct abi_thunk *self);             \
	void *PREFIX##realloc(void *old, size_t size, const struct abi_thunk *self);               \
	void PREFIX##free(void *block, const struct abi_thunk *self);                              \
	int PREFIX##posix_memalign(                                                                \
		void **out, size_t alignment, size_t size, const struct abi_thunk *self);          \
	void *PREFIX##aligned_alloc(size_t alignment, size_t size, const struct abi_thunk *self);  \
	void *PREFIX##memalign(size_t alignment, size_t size, const struct abi_thunk *self);       \
	void *PREFIX##valloc(size_t size, const struct abi_thunk *self);                           \
	void *PREFIX##pvalloc(size_t size, const struct abi_thunk *self);                          \
	void *PREFIX##reallocarray(                                                                \
		void *old, size_t count, size_t size, const struct abi_thunk *self);               \
	void PREFIX##cfree(void *block, const struct abi_thunk *self);                             \
	void *PREFIX##mallocx(size_t size, size_t flags, const struct abi_thunk *self);            \
	void *PREFIX##rallocx(void *old, size_t size, size_t flags, const struct abi_thunk *self); \
	size_t PREFIX##xallocx(void *block, size_t size, size_t extra, size_t flags,               \
		const struct abi_thunk *self);                                                     \
	void PREFIX##dallocx(void *block, size_t flags, const struct abi_thunk *self);             \
	void PREFIX##sdallocx(                                                                     \
		void *block, size_t size, size_t flags, const struct abi_thunk *self);             \
	void PREFIX##free_sized(void *block, size_t size, const struct abi_thunk *self);           \
	void PREFIX##free_aligned_sized(                                                           \
		void *block, size_t alignment, size_t size, const struct abi_thunk *self)

#define NEWS_DECLARE(PREFIX, ...)                                                                  \
	void *PREFIX##new_bytes(size_t size, size_t unused, __VA_ARGS__);                          \
	void *PREFIX##new_count(size_t count, size_t size, __VA_ARGS__);                           \
	void *PREFIX##new_aligned(size_t size, size_t alignment, __VA_ARGS__)

HOOKS_DECLARE(heaptap_hook_);	 /* record every call */
HOOKS_DECLARE(heaptap_sampled_); /* record the call if it belongs to the sample */
HOOKS_DECLARE(heaptap_sample_);	 /* entries of heaptap_sampled_: sample_entry.S */

/* Hooks of ABI_NEWS: new_entry.S, sample_entry.S. */
NEWS_DECLARE(heaptap_hook_, size_t unused_too, const struct abi_thunk *self);
NEWS_DECLARE(heaptap_sampled_, size_t unused_too, const struct abi_thunk *self);
NEWS_DECLARE(heaptap_sample_, size_t unused_too, const struct abi_thunk *self);
/* Called by the entries of ABI_NEWS, which make `frame`. NULL: the entry must jump to the real
 * operator. */
struct thread_frame;
NEWS_DECLARE(hooks_, const struct abi_thunk *self, const struct thread_frame *frame);
NEWS_DECLARE(sampled_hooks_, const struct abi_thunk *self, const struct thread_frame *frame);
