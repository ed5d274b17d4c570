/* SPDX-License-Identifier: Apache-2.0
 *
 * The hooked functions, once. X(id, name, shape, arity): `shape` says how the agent reads the call,
 * `arity` how many integer arguments it takes (the thunk passes its own address in the next one).
 * The order is part of the trace format: append only.
 */
#pragma once

enum abi_shape {
	ABI_SHAPE_ALLOC,   /* returns the block or NULL */
	ABI_SHAPE_REALLOC, /* first argument is the old block */
	ABI_SHAPE_OUT, /* posix_memalign: block through the first argument, result is an errno */
	ABI_SHAPE_FREE,
};

#define ABI_HOOKS(X)                                                                               \
	X(MALLOC, malloc, ALLOC, 1)                                                                \
	X(CALLOC, calloc, ALLOC, 2)                                                                \
	X(REALLOC, realloc, REALLOC, 2)                                                            \
	X(FREE, free, FREE, 1)                                                                     \
	X(POSIX_MEMALIGN, posix_memalign, OUT, 3)                                                  \
	X(ALIGNED_ALLOC, aligned_alloc, ALLOC, 2)                                                  \
	X(MEMALIGN, memalign, ALLOC, 2)                                                            \
	X(VALLOC, valloc, ALLOC, 1)                                                                \
	X(PVALLOC, pvalloc, ALLOC, 1)                                                              \
	X(REALLOCARRAY, reallocarray, REALLOC, 3)                                                  \
	X(CFREE, cfree, FREE, 1)

enum abi_hook {
#define X(id, name, shape, arity) ABI_HOOK_##id,
	ABI_HOOKS(X)
#undef X
		ABI_HOOK_COUNT
};
