/* SPDX-License-Identifier: Apache-2.0
 *
 * The only list of hooked functions: allocator functions, operators new, guards, and functions that
 * map memory. X(id, name, shape, arity): `shape` says how the agent reads the call, `arity` how
 * many integer arguments it takes (the thunk passes its own address in the next one). The order of
 * ABI_HOOKS is part of the trace format: append only.
 */
#pragma once

#include "format/base.h"

enum abi_shape {
	ABI_SHAPE_ALLOC,   /* returns the block or NULL */
	ABI_SHAPE_REALLOC, /* first argument is the old block */
	ABI_SHAPE_RESIZE,  /* first argument is the block, which is resized in place; returns its
			      usable bytes */
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
	X(CFREE, cfree, FREE, 1)                                                                   \
	X(MALLOCX, mallocx, ALLOC, 2)                                                              \
	X(RALLOCX, rallocx, REALLOC, 3)                                                            \
	X(XALLOCX, xallocx, RESIZE, 4)                                                             \
	X(DALLOCX, dallocx, FREE, 2)                                                               \
	X(SDALLOCX, sdallocx, FREE, 3)

/*
 * Operators new that the allocator itself defines, and similar functions. Without memory they call
 * the program's new_handler and throw; an exception cannot unwind through a frame of the agent.
 * X(id, name, recorded): the hook therefore calls a plain function of the same allocator
 * (abi_config.plain), which neither calls new_handler nor throws, and records a call of `recorded`.
 * If the plain function returns NULL, the hook leaves and jumps to the operator. The hook reads two
 * arguments; a third (nothrow) may be present, so the thunk's address is always in the fourth.
 *
 *      BYTES    (size)             plain(size)
 *      COUNT    (count, size)      plain(count, size)
 *      ALIGNED  (size, alignment)  plain(alignment, size)
 */
#define ABI_NEWS(X)                                                                                \
	X(BYTES, new_bytes, MALLOC)                                                                \
	X(COUNT, new_count, CALLOC)                                                                \
	X(ALIGNED, new_aligned, ALIGNED_ALLOC)

#define ABI_NEW_ARITY 3u

/*
 * The sized frees of C23. X(id, name, arity): recorded as calls of free, because an event has only
 * four bits for its function.
 */
#define ABI_SIZED_FREES(X)                                                                         \
	X(FREE_SIZED, free_sized, 2)                                                               \
	X(FREE_ALIGNED_SIZED, free_aligned_sized, 3)

/*
 * Guards watch functions by which a program can forbid its threads what the agent does (seccomp,
 * PR_SET_TSC), replaces itself (exec), makes children, or finishes loading a library. A guard notes
 * the call and jumps to the real function; it records no event. Its thunk passes its address in
 * r11, which never holds an argument.
 */
#define ABI_GUARDS(X)                                                                              \
	X(PRCTL, prctl)                                                                            \
	X(SYSCALL, syscall)                                                                        \
	ABI_EXECS(X)                                                                               \
	ABI_FORKS(X)                                                                               \
	ABI_LOADS(X)

/* Hooked only if the capture follows an exec (attach/capture/tap.h). */
#define ABI_EXECS(X)                                                                               \
	X(EXECVE, execve)                                                                          \
	X(EXECV, execv)                                                                            \
	X(EXECVP, execvp)                                                                          \
	X(EXECVPE, execvpe)                                                                        \
	X(EXECL, execl)                                                                            \
	X(EXECLP, execlp)                                                                          \
	X(EXECLE, execle)                                                                          \
	X(FEXECVE, fexecve)                                                                        \
	X(EXECVEAT, execveat)

/* Hooked only if the capture follows children too. */
#define ABI_FORKS(X)                                                                               \
	X(FORK, fork)                                                                              \
	X(VFORK, vfork)                                                                            \
	X(POSIX_SPAWN, posix_spawn)                                                                \
	X(POSIX_SPAWNP, posix_spawnp)                                                              \
	X(SYSTEM, system)                                                                          \
	X(POPEN, popen)                                                                            \
	X(FORKPTY, forkpty)                                                                        \
	X(DAEMON, daemon)

/*
 * The function that the dynamic linker calls, through a pointer of its own (attach/got/unlock.h),
 * to unlock its lists: after it has relocated a library and before the library's constructors run.
 * No symbol has this name.
 */
#define ABI_LOADS(X) X(LOADED, rtld_unlock)

/*
 * Functions by which a program maps memory without its allocator; hooked on request (attach
 * --mmap). mmap's six arguments occupy all argument registers, so the thunk's address is in r11, as
 * for guards.
 */
#define ABI_MAPPINGS(X)                                                                            \
	X(MMAP, mmap, 6)                                                                           \
	X(MMAP64, mmap64, 6)                                                                       \
	X(MUNMAP, munmap, 2)                                                                       \
	X(MREMAP, mremap, 5)                                                                       \
	X(MADVISE, madvise, 3)                                                                     \
	X(MPROTECT, mprotect, 3)

enum abi_hook {
#define X(id, name, shape, arity) ABI_HOOK_##id,
	ABI_HOOKS(X)
#undef X
		ABI_HOOK_COUNT,
	ABI_HOOK_LAST = ABI_HOOK_COUNT -
			1, /* the ids below continue from here and never appear in a trace */
#define X(id, name, recorded) ABI_NEW_##id,
	ABI_NEWS(X)
#undef X
		ABI_NEW_END,
	ABI_NEW_LAST = ABI_NEW_END - 1,
#define X(id, name, arity) ABI_HOOK_##id,
	ABI_SIZED_FREES(X)
#undef X
		ABI_ALLOCATOR_COUNT,
	ABI_ALLOCATOR_LAST = ABI_ALLOCATOR_COUNT - 1,
#define X(id, name) ABI_GUARD_##id,
	ABI_GUARDS(X)
#undef X
#define X(id, name, arity) ABI_MAPPING_##id,
		ABI_MAPPINGS(X)
#undef X
			ABI_TAP_COUNT
};

_Static_assert(ABI_HOOK_COUNT <= 16, "an event has four bits for its function");

static inline int abi_is_mapping(enum abi_hook hook)
{
	return hook >= ABI_MAPPING_MMAP;
}

static inline int abi_is_guard(enum abi_hook hook)
{
	return hook >= ABI_ALLOCATOR_COUNT && !abi_is_mapping(hook);
}

static inline int abi_is_allocator(enum abi_hook hook)
{
	return hook < ABI_ALLOCATOR_COUNT;
}

/* Whether `hook` is one of ABI_NEWS. */
static inline int abi_is_new(enum abi_hook hook)
{
	return hook >= ABI_HOOK_COUNT && hook < ABI_NEW_END;
}

/* Whether `hook` is one of ABI_SIZED_FREES. */
static inline int abi_is_sized_free(enum abi_hook hook)
{
	return hook >= ABI_NEW_END && hook < ABI_ALLOCATOR_COUNT;
}

/* The hook as which the trace records calls of an allocator's function: below ABI_HOOK_COUNT. */
static inline enum abi_hook abi_recorded_as(enum abi_hook hook)
{
	static const uint8_t recorded_as[] = {
#define X(id, name, recorded) ABI_HOOK_##recorded,
		ABI_NEWS(X)
#undef X
	};
	if (abi_is_sized_free(hook))
		return ABI_HOOK_FREE;
	return abi_is_new(hook) ? (enum abi_hook)recorded_as[hook - ABI_HOOK_COUNT] : hook;
}

/* `hook`: an allocator's function. */
static inline enum abi_shape abi_shape_of(enum abi_hook hook)
{
	static const uint8_t shapes[ABI_HOOK_COUNT] = {
#define X(id, name, shape, arity) ABI_SHAPE_##shape,
		ABI_HOOKS(X)
#undef X
	};
	return (enum abi_shape)shapes[abi_recorded_as(hook)];
}

/* Whether calls of `hook` only return or resize a block and never free one. If such a call is not
 * recorded, the records of other blocks stay right. */
static inline int abi_only_allocates(enum abi_hook hook)
{
	if (!abi_is_allocator(hook))
		return 0;
	enum abi_shape shape = abi_shape_of(hook);
	return shape != ABI_SHAPE_FREE && shape != ABI_SHAPE_REALLOC;
}

static inline unsigned abi_arity_of(enum abi_hook hook)
{
	static const uint8_t arities[ABI_ALLOCATOR_COUNT] = {
#define X(id, name, shape, arity) arity,
		ABI_HOOKS(X)
#undef X
#define X(id, name, recorded) ABI_NEW_ARITY,
			ABI_NEWS(X)
#undef X
#define X(id, name, arity) arity,
				ABI_SIZED_FREES(X)
#undef X
	};
	return arities[hook];
}

static inline int abi_is_exec(enum abi_hook hook)
{
	return hook >= ABI_GUARD_EXECVE && hook <= ABI_GUARD_EXECVEAT;
}

static inline int abi_is_fork(enum abi_hook hook)
{
	return hook >= ABI_GUARD_FORK && hook <= ABI_GUARD_DAEMON;
}
