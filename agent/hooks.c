/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hooks.h"

#include "agent/config.h"
#include "agent/sample.h"
#include "agent/slot.h"
#include "agent/stream.h"
#include "agent/thread.h"
#include "agent/trace.h"

/* sampled_hooks.c includes this file to make the hooks of sampling captures. */
#ifndef HOOKS_SAMPLED
#define HOOKS_SAMPLED false
#define HOOK(name)    heaptap_hook_##name
#define NEW(name)     hooks_##name
#endif

/* The stack frame of the function that uses this macro. */
#define HOOK_FRAME ((const struct thread_frame *)__builtin_frame_address(0))

#define REAL(self, type, ...) ((type(*)(__VA_ARGS__))(self)->real)

/* Requested bytes; SIZE_MAX, which no allocator grants, if the product overflows. */
static size_t product(size_t count, size_t size)
{
	size_t bytes;
	return __builtin_mul_overflow(count, size, &bytes) ? SIZE_MAX : bytes;
}

static inline __attribute__((always_inline)) uint32_t stack_id(
	const struct abi_config *config, struct abi_slot *slot, const struct thread_frame *frame)
{
	return trace_stack(config, slot, walk_start_of(frame));
}

static uint64_t usable_bytes(const struct abi_thunk *self, void *block)
{
	const struct abi_config *config = config_of(self);
	if (self->usable_index >= ABI_USABLE_MAX || !config->usable[self->usable_index])
		return 0;
	return ((size_t(*)(void *))config->usable[self->usable_index])(block);
}

/*
 * Records the real function's result: a new block, or a failure (`block` NULL). Leaves `slot`,
 * which thread_enter returned; NULL: does nothing. Inlined into the hook of malloc; all others call
 * record_block.
 */
static inline __attribute__((always_inline)) void record_block_here(const struct abi_config *config,
	struct abi_slot *slot, const struct thread_frame *frame, enum abi_event_kind kind,
	enum abi_hook hook, void *block, size_t size)
{
	if (ht_unlikely(!slot || !config_alive(config)))
		return;
	slot_mark(slot, ABI_SLOT_RECORDING);
	if (ht_likely(block != NULL)) {
		struct stream_event event = {.kind = kind,
			.hook = hook,
			.addr = (uint64_t)block,
			.size = size,
			.stack = stack_id(config, slot, frame)};
		stream_put_block(config, slot, &event);
	} else if (size != 0) {
		count_add(&slot->head.failed_calls, 1);
	}
	thread_leave(config, slot);
}

static HT_NOINLINE void record_block(const struct abi_thunk *self, struct abi_slot *slot,
	const struct thread_frame *frame, enum abi_event_kind kind, void *block, size_t size)
{
	record_block_here(config_of(self), slot, frame, kind,
		abi_recorded_as((enum abi_hook)self->hook), block, size);
}

/* Records that `block` is about to be freed, and marks the call of the real function. */
static inline __attribute__((always_inline)) void record_giving_back_here(
	const struct abi_thunk *self, struct abi_slot *slot, enum abi_event_kind kind,
	enum abi_hook hook, void *block)
{
	struct stream_event event = {.kind = kind,
		.hook = hook,
		.addr = (uint64_t)block,
		.size = HOOKS_SAMPLED || stream_allocated(slot, (uint64_t)block)
				? 0
				: usable_bytes(self, block)};
	stream_put_freed(config_of(self), slot, &event);
	thread_mark_real(config_of(self), slot);
}

static HT_NOINLINE void record_giving_back(
	const struct abi_thunk *self, struct abi_slot *slot, enum abi_event_kind kind, void *block)
{
	record_giving_back_here(self, slot, kind, (enum abi_hook)self->hook, block);
}

/* Records the end of a realloc that has no new block to record, and leaves `slot`. `kind`:
 * REALLOC_FREED or REALLOC_FAIL. */
static HT_NOINLINE void record_no_block(const struct abi_thunk *self, struct abi_slot *slot,
	enum abi_event_kind kind, unsigned failed_calls)
{
	const struct abi_config *config = config_of(self);
	if (!config_alive(config))
		return;
	slot_mark(slot, ABI_SLOT_RECORDING);
	struct stream_event event = {.kind = kind};
	stream_put_mark(config, slot, &event);
	count_add(&slot->head.failed_calls, failed_calls);
	thread_leave(config, slot);
}

/* thread_enter, for a function that allocates. */
static inline struct abi_slot *alloc_begin(
	const struct abi_thunk *self, const struct thread_frame *frame, size_t size)
{
	struct abi_slot *slot = thread_enter(self, frame, ABI_SLOT_IN_REAL);
	if (HOOKS_SAMPLED)
		sample_draw(self, slot, frame, size);
	return slot;
}

static inline void alloc_end(const struct abi_thunk *self, struct abi_slot *slot,
	const struct thread_frame *frame, void *block, size_t size)
{
	const struct abi_config *config = config_of(self);
	if (HOOKS_SAMPLED && slot && !sample_keep(config, slot, (uint64_t)block))
		thread_leave(config, slot);
	else
		record_block(self, slot, frame, ABI_EVENT_ALLOC, block, size);
}

/* Whether the free of this block is to be recorded. If it is a sample, removes it from the set. */
static inline bool is_wanted(const struct abi_thunk *self, void *block)
{
	return HOOKS_SAMPLED ? sample_remove(config_of(self), (uint64_t)block) : block != NULL;
}

/* Before a realloc of `old`: the slot to record in, marked as inside the real function. */
static inline struct abi_slot *realloc_begin(
	const struct abi_thunk *self, const struct thread_frame *frame, void *old, size_t size)
{
	if (!old)
		return alloc_begin(self, frame, size);
	struct abi_slot *slot = thread_enter(self, frame, ABI_SLOT_RECORDING);
	bool wanted = is_wanted(self, old);
	if (HOOKS_SAMPLED)
		sample_draw(self, slot, frame, size);
	if (!slot)
		return NULL;
	if (HOOKS_SAMPLED)
		slot->head.sampler.gone = wanted;
	if (wanted)
		record_giving_back(self, slot, ABI_EVENT_REALLOC_BEGIN, old);
	else
		thread_mark_real(config_of(self), slot);
	return slot;
}

/* The realloc failed: the old block is still live. */
static inline void realloc_fail(
	const struct abi_thunk *self, struct abi_slot *slot, void *old, unsigned failed_calls)
{
	const struct abi_config *config = config_of(self);
	if (!HOOKS_SAMPLED || (slot->head.sampler.gone && sample_insert(config, (uint64_t)old)))
		record_no_block(self, slot, ABI_EVENT_REALLOC_FAIL, failed_calls);
	else if (slot->head.sampler.gone)
		record_no_block(self, slot, ABI_EVENT_REALLOC_FREED, failed_calls);
	else
		thread_leave(config, slot);
}

/* Whether the new block of a realloc is recorded. `was_block`: REALLOC_BEGIN was recorded; `block`:
 * NULL if the call returned none. */
static inline bool realloc_keeps(
	const struct abi_thunk *self, struct abi_slot *slot, bool was_block, void *block)
{
	const struct abi_config *config = config_of(self);
	switch (config_paused(config)) {
	case ABI_PAUSED_NO:
		return !HOOKS_SAMPLED || (block && sample_keep(config, slot, (uint64_t)block));
	case ABI_PAUSED_SETTLE:
		return was_block && block &&
		       (!HOOKS_SAMPLED || sample_insert(config, (uint64_t)block));
	default:
		return false;
	}
}

static inline __attribute__((always_inline)) void realloc_end(const struct abi_thunk *self,
	struct abi_slot *slot, const struct thread_frame *frame, void *old, void *block,
	size_t size)
{
	if (!slot)
		return;
	bool was_block = HOOKS_SAMPLED ? old && slot->head.sampler.gone : old != NULL;
	bool is_kept = realloc_keeps(self, slot, was_block, block);
	if (old && !block && size)
		realloc_fail(self, slot, old, 1);
	else if (was_block && (!block || !is_kept))
		record_no_block(self, slot, ABI_EVENT_REALLOC_FREED, 0);
	else if (is_kept)
		record_block(self, slot, frame, was_block ? ABI_EVENT_REALLOC_END : ABI_EVENT_ALLOC,
			block, size);
	else
		thread_leave(config_of(self), slot);
}

#define HOOK_BY_SIZE(name)                                                                         \
	void *HOOK(name)(size_t size, const struct abi_thunk *self)                                \
	{                                                                                          \
		struct abi_slot *slot = alloc_begin(self, HOOK_FRAME, size);                       \
		void *block = REAL(self, void *, size_t)(size);                                    \
		alloc_end(self, slot, HOOK_FRAME, block, size);                                    \
		return block;                                                                      \
	}

void *HOOK(malloc)(size_t size, const struct abi_thunk *self)
{
	struct abi_slot *slot = alloc_begin(self, HOOK_FRAME, size);
	void *block = REAL(self, void *, size_t)(size);
	if (HOOKS_SAMPLED)
		alloc_end(self, slot, HOOK_FRAME, block, size);
	else
		record_block_here(config_of(self), slot, HOOK_FRAME, ABI_EVENT_ALLOC,
			ABI_HOOK_MALLOC, block, size);
	return block;
}

HOOK_BY_SIZE(valloc)
HOOK_BY_SIZE(pvalloc)

#define HOOK_BY_ALIGNMENT(name)                                                                    \
	void *HOOK(name)(size_t alignment, size_t size, const struct abi_thunk *self)              \
	{                                                                                          \
		struct abi_slot *slot = alloc_begin(self, HOOK_FRAME, size);                       \
		void *block = REAL(self, void *, size_t, size_t)(alignment, size);                 \
		alloc_end(self, slot, HOOK_FRAME, block, size);                                    \
		return block;                                                                      \
	}

HOOK_BY_ALIGNMENT(aligned_alloc)
HOOK_BY_ALIGNMENT(memalign)

/* Calls thread_enter also for frees that are not recorded: detach unmaps the agent as soon as the
 * thread records show no call inside the agent. */
static inline struct abi_slot *free_begin(
	const struct abi_thunk *self, const struct thread_frame *frame, void *block)
{
	struct abi_slot *slot =
		thread_enter(self, frame, block ? ABI_SLOT_RECORDING : ABI_SLOT_IN_REAL);
	bool wanted = is_wanted(self, block);
	if (slot && wanted)
		record_giving_back(self, slot, ABI_EVENT_FREE, block);
	else if (HOOKS_SAMPLED && slot)
		thread_mark_real(config_of(self), slot);
	return slot;
}

static inline void free_end(const struct abi_thunk *self, struct abi_slot *slot)
{
	if (slot)
		thread_leave(config_of(self), slot);
}

#define HOOK_FREE(name)                                                                            \
	void HOOK(name)(void *block, const struct abi_thunk *self)                                 \
	{                                                                                          \
		struct abi_slot *slot = free_begin(self, HOOK_FRAME, block);                       \
		REAL(self, void, void *)(block);                                                   \
		free_end(self, slot);                                                              \
	}

void HOOK(free)(void *block, const struct abi_thunk *self)
{
	struct abi_slot *slot;
	if (HOOKS_SAMPLED) {
		slot = free_begin(self, HOOK_FRAME, block);
	} else {
		slot = thread_enter(
			self, HOOK_FRAME, block ? ABI_SLOT_RECORDING : ABI_SLOT_IN_REAL);
		if (slot && block)
			record_giving_back_here(self, slot, ABI_EVENT_FREE, ABI_HOOK_FREE, block);
	}
	REAL(self, void, void *)(block);
	free_end(self, slot);
}

HOOK_FREE(cfree)

void HOOK(dallocx)(void *block, size_t flags, const struct abi_thunk *self)
{
	struct abi_slot *slot = free_begin(self, HOOK_FRAME, block);
	REAL(self, void, void *, size_t)(block, flags);
	free_end(self, slot);
}

void HOOK(sdallocx)(void *block, size_t size, size_t flags, const struct abi_thunk *self)
{
	struct abi_slot *slot = free_begin(self, HOOK_FRAME, block);
	REAL(self, void, void *, size_t, size_t)(block, size, flags);
	free_end(self, slot);
}

/* As free_begin, for a function that is recorded as free. */
static inline __attribute__((always_inline)) struct abi_slot *sized_free_begin(
	const struct abi_thunk *self, const struct thread_frame *frame, void *block)
{
	struct abi_slot *slot =
		thread_enter(self, frame, block ? ABI_SLOT_RECORDING : ABI_SLOT_IN_REAL);
	bool wanted = is_wanted(self, block);
	if (slot && wanted)
		record_giving_back_here(self, slot, ABI_EVENT_FREE, ABI_HOOK_FREE, block);
	else if (HOOKS_SAMPLED && slot)
		thread_mark_real(config_of(self), slot);
	return slot;
}

void HOOK(free_sized)(void *block, size_t size, const struct abi_thunk *self)
{
	struct abi_slot *slot = sized_free_begin(self, HOOK_FRAME, block);
	REAL(self, void, void *, size_t)(block, size);
	free_end(self, slot);
}

void HOOK(free_aligned_sized)(
	void *block, size_t alignment, size_t size, const struct abi_thunk *self)
{
	struct abi_slot *slot = sized_free_begin(self, HOOK_FRAME, block);
	REAL(self, void, void *, size_t, size_t)(block, alignment, size);
	free_end(self, slot);
}

void *HOOK(mallocx)(size_t size, size_t flags, const struct abi_thunk *self)
{
	struct abi_slot *slot = alloc_begin(self, HOOK_FRAME, size);
	void *block = REAL(self, void *, size_t, size_t)(size, flags);
	alloc_end(self, slot, HOOK_FRAME, block, size);
	return block;
}

void *HOOK(calloc)(size_t count, size_t size, const struct abi_thunk *self)
{
	struct abi_slot *slot = alloc_begin(self, HOOK_FRAME, product(count, size));
	void *block = REAL(self, void *, size_t, size_t)(count, size);
	alloc_end(self, slot, HOOK_FRAME, block, product(count, size));
	return block;
}

int HOOK(posix_memalign)(void **out, size_t alignment, size_t size, const struct abi_thunk *self)
{
	struct abi_slot *slot = alloc_begin(self, HOOK_FRAME, size);
	int error = REAL(self, int, void **, size_t, size_t)(out, alignment, size);
	/* A nonzero result is a failure even for size 0. */
	alloc_end(self, slot, HOOK_FRAME, error ? NULL : *out, error ? SIZE_MAX : size);
	return error;
}

void *HOOK(realloc)(void *old, size_t size, const struct abi_thunk *self)
{
	struct abi_slot *slot = realloc_begin(self, HOOK_FRAME, old, size);
	void *block = REAL(self, void *, void *, size_t)(old, size);
	realloc_end(self, slot, HOOK_FRAME, old, block, size);
	return block;
}

void *HOOK(reallocarray)(void *old, size_t count, size_t size, const struct abi_thunk *self)
{
	struct abi_slot *slot = realloc_begin(self, HOOK_FRAME, old, product(count, size));
	void *block = REAL(self, void *, void *, size_t, size_t)(old, count, size);
	realloc_end(self, slot, HOOK_FRAME, old, block, product(count, size));
	return block;
}

void *HOOK(rallocx)(void *old, size_t size, size_t flags, const struct abi_thunk *self)
{
	struct abi_slot *slot = realloc_begin(self, HOOK_FRAME, old, size);
	void *block = REAL(self, void *, void *, size_t, size_t)(old, size, flags);
	realloc_end(self, slot, HOOK_FRAME, old, block, size);
	return block;
}

/* The size that the allocator granted, at most `size + extra`, computed from the block's usable
 * bytes. */
static size_t granted(size_t size, size_t extra, size_t usable)
{
	return usable - size < extra ? usable : size + extra;
}

size_t HOOK(xallocx)(
	void *block, size_t size, size_t extra, size_t flags, const struct abi_thunk *self)
{
	struct abi_slot *slot = realloc_begin(self, HOOK_FRAME, block, size);
	size_t usable =
		REAL(self, size_t, void *, size_t, size_t, size_t)(block, size, extra, flags);
	/* If a block cannot grow in place, the call has not failed: count no failure. The draw used
	 * `size`, the minimum requested. */
	if (slot && usable < size)
		realloc_fail(self, slot, block, 0);
	else
		realloc_end(self, slot, HOOK_FRAME, block, block,
			HOOKS_SAMPLED ? size : granted(size, extra, usable));
	return usable;
}

/* Address of the plain function that the hook calls instead of an operator new; 0: none. */
static inline uint64_t plain_of(const struct abi_thunk *self)
{
	return self->plain_index < ABI_PLAIN_MAX ? config_of(self)->plain[self->plain_index] : 0;
}

#define HOOK_NEW(name, type, bytes, ...)                                                           \
	void *NEW(name)(size_t first, size_t second, const struct abi_thunk *self,                 \
		const struct thread_frame *frame)                                                  \
	{                                                                                          \
		uint64_t plain = plain_of(self);                                                   \
		(void)second;                                                                      \
		if (ht_unlikely(!plain))                                                           \
			return NULL;                                                               \
		struct abi_slot *slot = alloc_begin(self, frame, bytes);                           \
		void *block = ((type)plain)(__VA_ARGS__);                                          \
		alloc_end(self, slot, frame, block, bytes);                                        \
		return block;                                                                      \
	}

HOOK_NEW(new_bytes, void *(*)(size_t), first, first)
HOOK_NEW(new_count, void *(*)(size_t, size_t), product(first, second), first, second)
HOOK_NEW(new_aligned, void *(*)(size_t, size_t), first, second, first)
