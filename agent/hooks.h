/* SPDX-License-Identifier: Apache-2.0
 *
 * The hooks: one function per entry of ABI_HOOKS, found by the daemon in the agent's symbol table.
 * A thunk jumps here with its own address behind the function's arguments. Result and errno are
 * those of the real function, whatever becomes of the recording.
 */
#pragma once

#include "format/abi_hooks.h"
#include "format/abi_thunk.h"

void *heaptap_hook_malloc(size_t size, const struct abi_thunk *self);
void *heaptap_hook_calloc(size_t count, size_t size, const struct abi_thunk *self);
void *heaptap_hook_realloc(void *old, size_t size, const struct abi_thunk *self);
void heaptap_hook_free(void *block, const struct abi_thunk *self);
int heaptap_hook_posix_memalign(
	void **out, size_t alignment, size_t size, const struct abi_thunk *self);
void *heaptap_hook_aligned_alloc(size_t alignment, size_t size, const struct abi_thunk *self);
void *heaptap_hook_memalign(size_t alignment, size_t size, const struct abi_thunk *self);
void *heaptap_hook_valloc(size_t size, const struct abi_thunk *self);
void *heaptap_hook_pvalloc(size_t size, const struct abi_thunk *self);
void *heaptap_hook_reallocarray(void *old, size_t count, size_t size, const struct abi_thunk *self);
void heaptap_hook_cfree(void *block, const struct abi_thunk *self);
/* jemalloc's own. `flags` may be a whole register: other allocators have an alignment there. */
void *heaptap_hook_mallocx(size_t size, size_t flags, const struct abi_thunk *self);
void *heaptap_hook_rallocx(void *old, size_t size, size_t flags, const struct abi_thunk *self);
size_t heaptap_hook_xallocx(
	void *block, size_t size, size_t extra, size_t flags, const struct abi_thunk *self);
void heaptap_hook_dallocx(void *block, size_t flags, const struct abi_thunk *self);
void heaptap_hook_sdallocx(void *block, size_t size, size_t flags, const struct abi_thunk *self);
