/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/mapping.h"

#include "agent/config.h"
#include "agent/slot.h"
#include "agent/stream.h"
#include "agent/thread.h"
#include "agent/trace.h"

#define HOOK_FRAME ((const struct thread_frame *)__builtin_frame_address(0))

#define REAL(self, type, ...) ((type(*)(__VA_ARGS__))(self)->real)

/* The kernel's numbers. */
enum {
	MREMAP_DONTUNMAP = 4,
	ADVICE_DONTNEED = 4,
	ADVICE_FREE = 8,
};

#define WHAT_PROTECT_SHIFT 8u
#define WHAT_FLAGS_SHIFT   32u

/* The data of an event that a hook records after the call has returned. */
struct record {
	uint64_t tsc;
	uint32_t stack;
};

static bool is_address(const void *result)
{
	return result != (void *)-1;
}

/* Takes the time before a call that unmaps: another thread may get the address range before the
 * call returns. Marks the slot as inside the real function. */
static HT_NOINLINE uint64_t stamp_before(const struct abi_thunk *self, struct abi_slot *slot)
{
	if (!slot)
		return 0;
	uint64_t tsc = stream_mapping_stamp(config_of(self), slot);
	if (config_alive(config_of(self)))
		slot_mark(slot, ABI_SLOT_IN_UNMAPPING);
	return tsc;
}

/*
 * Whether the call is to be recorded. If so, marks the slot and takes the time; otherwise leaves
 * the slot. `slot`: as thread_enter returned it.
 */
static HT_NOINLINE bool record_begin(
	const struct abi_thunk *self, struct abi_slot *slot, bool is_done, struct record *ret)
{
	const struct abi_config *config = config_of(self);
	if (!slot)
		return false;
	if (!is_done || !config_alive(config)) {
		thread_leave(config, slot);
		return false;
	}
	slot_mark(slot, ABI_SLOT_RECORDING);
	ret->tsc = stream_mapping_stamp(config, slot);
	return true;
}

/* Leaves out the two fastest ways of trace_stack, which use more stack: a mapping call takes
 * microseconds anyway. */
static HT_NOINLINE uint32_t stack_id(
	const struct abi_thunk *self, struct abi_slot *slot, const struct thread_frame *frame)
{
	return trace_stack_other(config_of(self), slot, walk_start_of(frame));
}

/* Builds the event in a frame of its own: in the frame of a hook, `mapping` would use stack during
 * the walk before. */
static HT_NOINLINE void put(const struct abi_thunk *self, struct abi_slot *slot,
	const struct record *record, uint64_t addr, uint64_t length, uint64_t what)
{
	const struct stream_mapping mapping = {.call = (enum abi_mapping_call)(what & UINT8_MAX),
		.tsc = record->tsc,
		.addr = addr,
		.length = length,
		.protect = (uint8_t)(what >> WHAT_PROTECT_SHIFT),
		.flags = (uint32_t)(what >> WHAT_FLAGS_SHIFT),
		.stack = record->stack};
	stream_put_mapping(config_of(self), slot, &mapping);
}

/* A call, its protection and its flags in one word. */
static inline uint64_t call_word(enum abi_mapping_call call, int protect, int flags)
{
	return call | (uint64_t)(uint8_t)protect << WHAT_PROTECT_SHIFT |
	       (uint64_t)(uint32_t)flags << WHAT_FLAGS_SHIFT;
}

void *mapping_mmap(void *addr, size_t length, int protect, int flags, int fd, int64_t offset,
	const struct abi_thunk *self)
{
	/* The hook's frame is the one that mapping_entry.S made. */
	const struct thread_frame *frame = (const struct thread_frame *)HOOK_FRAME->caller_fp;
	struct abi_slot *slot = thread_enter(self, frame, ABI_SLOT_IN_MAPPING);
	struct record record;
	void *result = REAL(self, void *, void *, size_t, int, int, int, int64_t)(
		addr, length, protect, flags, fd, offset);
	if (record_begin(self, slot, is_address(result), &record)) {
		record.stack = stack_id(self, slot, frame);
		put(self, slot, &record, (uint64_t)result, length,
			call_word(ABI_CALL_MAP, protect, flags));
		thread_leave(config_of(self), slot);
	}
	return result;
}

/* An event stamped before the call is committed after it. Meanwhile the daemon holds back events
 * stamped later than this slot's last one, because of the slot's mark (ABI_SLOT_IN_UNMAPPING). */
int heaptap_hook_munmap(void *addr, size_t length, const struct abi_thunk *self)
{
	struct abi_slot *slot = thread_enter(self, HOOK_FRAME, ABI_SLOT_RECORDING);
	uint64_t tsc = stamp_before(self, slot);
	struct record record;
	int result = REAL(self, int, void *, size_t)(addr, length);
	if (record_begin(self, slot, result == 0, &record)) {
		record.stack = stack_id(self, slot, HOOK_FRAME);
		record.tsc = tsc;
		put(self, slot, &record, (uint64_t)addr, length, call_word(ABI_CALL_UNMAP, 0, 0));
		thread_leave(config_of(self), slot);
	}
	return result;
}

void *heaptap_hook_mremap(void *addr, size_t old_length, size_t length, int flags, void *to,
	const struct abi_thunk *self)
{
	struct abi_slot *slot = thread_enter(self, HOOK_FRAME, ABI_SLOT_RECORDING);
	uint64_t tsc = stamp_before(self, slot);
	struct record record;
	void *result = REAL(self, void *, void *, size_t, size_t, int, void *)(
		addr, old_length, length, flags, to);
	if (record_begin(self, slot, is_address(result), &record)) {
		record.stack = stack_id(self, slot, HOOK_FRAME);
		const struct record from = {.tsc = tsc};
		put(self, slot, &from, (uint64_t)addr, flags & MREMAP_DONTUNMAP ? 0 : old_length,
			call_word(ABI_CALL_MOVE_FROM, 0, flags));
		put(self, slot, &record, (uint64_t)result, length,
			call_word(ABI_CALL_MOVE_TO, 0, flags));
		thread_leave(config_of(self), slot);
	}
	return result;
}

int heaptap_hook_madvise(void *addr, size_t length, int advice, const struct abi_thunk *self)
{
	struct abi_slot *slot = thread_enter(self, HOOK_FRAME, ABI_SLOT_IN_MAPPING);
	struct record record;
	int result = REAL(self, int, void *, size_t, int)(addr, length, advice);
	bool gives_back = advice == ADVICE_DONTNEED || advice == ADVICE_FREE;
	if (record_begin(self, slot, result == 0 && gives_back, &record)) {
		record.stack = stack_id(self, slot, HOOK_FRAME);
		put(self, slot, &record, (uint64_t)addr, length,
			call_word(ABI_CALL_ADVISE, 0, advice));
		thread_leave(config_of(self), slot);
	}
	return result;
}

int heaptap_hook_mprotect(void *addr, size_t length, int protect, const struct abi_thunk *self)
{
	struct abi_slot *slot = thread_enter(self, HOOK_FRAME, ABI_SLOT_IN_MAPPING);
	struct record record;
	int result = REAL(self, int, void *, size_t, int)(addr, length, protect);
	if (record_begin(self, slot, result == 0, &record)) {
		record.stack = stack_id(self, slot, HOOK_FRAME);
		put(self, slot, &record, (uint64_t)addr, length,
			call_word(ABI_CALL_PROTECT, protect, 0));
		thread_leave(config_of(self), slot);
	}
	return result;
}
