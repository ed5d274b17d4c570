/* SPDX-License-Identifier: Apache-2.0
 *
 * A private allocator with function names that no library uses: arenalloc.c.
 */
#pragma once

#include <stddef.h>

void *arena_get(size_t size);
void *arena_zeroed(size_t count, size_t size);
void *arena_resize(void *block, size_t size);
void *arena_aligned(size_t alignment, size_t size);
int arena_place(void **out, size_t alignment, size_t size);
void arena_put(void *block);
void arena_put_sized(void *block, size_t size);
void arena_put_behind(void *block); /* with ARENA_BEHIND */
void *arena_get_kept(size_t size);  /* with ARENA_BEHIND */
void arena_forget(void *block);
