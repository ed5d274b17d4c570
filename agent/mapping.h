/* SPDX-License-Identifier: Apache-2.0
 *
 * The hooks of ABI_MAPPINGS. Result and errno are those of the real function; failed calls are not
 * recorded. Mappings are never sampled: programs map memory rarely, in large pieces.
 */
#pragma once

#include "format/abi_hooks.h"
#include "format/abi_thunk.h"

/* Both have six arguments: the thunk's address comes in r11 (mapping_entry.S). */
void *heaptap_hook_mmap(void *addr, size_t length, int protect, int flags, int fd, int64_t offset);
void *heaptap_hook_mmap64(
	void *addr, size_t length, int protect, int flags, int fd, int64_t offset);
int heaptap_hook_munmap(void *addr, size_t length, const struct abi_thunk *self);
/* If the caller passes four arguments, `to` is an arbitrary register value. */
void *heaptap_hook_mremap(void *addr, size_t old_length, size_t length, int flags, void *to,
	const struct abi_thunk *self);
int heaptap_hook_madvise(void *addr, size_t length, int advice, const struct abi_thunk *self);
int heaptap_hook_mprotect(void *addr, size_t length, int protect, const struct abi_thunk *self);

/* Called by mapping_entry.S from a frame of its own. */
void *mapping_mmap(void *addr, size_t length, int protect, int flags, int fd, int64_t offset,
	const struct abi_thunk *self);
