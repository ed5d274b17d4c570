/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests what the hooks of mappings forward, return and record.
 */
#include "agent/mapping.h"

#include <errno.h>

#include "tests/unit/agent/world.h"

/* The real functions: they note their arguments and give what `result` says. */
static struct {
	uint64_t result;
	unsigned calls;
	uint64_t args[6];
	enum abi_slot_state state; /* of the slot meanwhile */
} real;

static uint64_t real_function(
	uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f)
{
	const uint64_t args[] = {a, b, c, d, e, f};
	struct abi_slot *slot = world_my_slot(0);
	memcpy(real.args, args, sizeof(args));
	real.calls++;
	real.state = slot ? (enum abi_slot_state)slot->head.state : ABI_SLOT_IDLE;
	errno = 1234;
	return real.result;
}

static struct event events[64];
static struct abi_thunk self;

static void setup(enum abi_hook hook, uint64_t result)
{
	world_make();
	memset(&real, 0, sizeof(real));
	real.result = result;
	self = world_thunk(hook, real_function);
	errno = 0;
}

static void check_args(uint64_t a, uint64_t b, unsigned count, const uint64_t more[])
{
	ck_assert_uint_eq(real.calls, 1);
	ck_assert_int_eq(errno, 1234);
	ck_assert_uint_eq(real.args[0], a);
	ck_assert_uint_eq(real.args[1], b);
	for (unsigned i = 0; i < count; i++)
		ck_assert_uint_eq((uint32_t)real.args[2 + i], (uint32_t)more[i]);
}

/* Checks that the slot has `count` events, all of them mappings. */
static void check_count(size_t count)
{
	struct abi_slot *slot = world_my_slot(0);
	ck_assert_ptr_nonnull(slot);
	ck_assert_uint_eq(slot->head.state, ABI_SLOT_IDLE);
	ck_assert_uint_eq(world_events(slot, events, 64), count);
	ck_assert_uint_eq(slot->head.mappings, count);
	ck_assert_uint_eq(slot->head.events, 0);
}

static void check_event(const struct event *event, enum abi_mapping_call call, uint64_t addr,
	uint64_t length, uint32_t protect, uint32_t flags)
{
	ck_assert_int_eq(event->kind, ABI_EVENT_MAPPING);
	ck_assert_uint_eq(event->hook, call);
	ck_assert_uint_eq(event->tid, WORLD_TID);
	ck_assert_uint_eq(event->addr, addr);
	ck_assert_uint_eq(event->size, length);
	ck_assert_uint_eq(event->protect, protect);
	ck_assert_uint_eq(event->flags, flags);
	ck_assert_int_eq(event->stack != 0, call != ABI_CALL_MOVE_FROM);
	ck_assert_uint_ne(event->tsc, 0);
}

/* Calls the hook as a thunk does, with the thunk's address in r11. */
static void *call_mmap(uint64_t addr, uint64_t length, int protect, int flags, int fd, long offset)
{
	register int r10 __asm__("rcx") = flags;
	register int r8 __asm__("r8") = fd;
	register long r9 __asm__("r9") = offset;
	register const struct abi_thunk *r11 __asm__("r11") = &self;
	void *ret;
	__asm__ volatile("mov %%rsp, %%rbx\n\t"
			 "sub $256, %%rsp\n\t"
			 "and $-16, %%rsp\n\t"
			 "call heaptap_hook_mmap\n\t"
			 "mov %%rbx, %%rsp"
			 : "=a"(ret), "+D"(addr), "+S"(length), "+d"(protect), "+r"(r10), "+r"(r8),
			 "+r"(r9), "+r"(r11)
			 :
			 : "rbx", "r10", "memory", "cc");
	return ret;
}

HT_TEST(mapping)
{
	setup(ABI_MAPPING_MMAP, 0x7000);
	void *got = call_mmap(0x1000, 5000, 3, 0x40022, -1, 8192);
	ck_assert_ptr_eq(got, (void *)0x7000);
	check_args(0x1000, 5000, 4, (const uint64_t[]){3, 0x40022, (uint64_t)-1, 8192});
	ck_assert_int_eq(real.state, ABI_SLOT_IN_MAPPING);
	check_count(1);
	check_event(&events[0], ABI_CALL_MAP, 0x7000, 5000, 3, 0x40022);
}

HT_TEST(unmapping)
{
	setup(ABI_MAPPING_MUNMAP, 0);
	ck_assert_int_eq(heaptap_hook_munmap((void *)0x7000, 4096, &self), 0);
	check_args(0x7000, 4096, 0, NULL);
	/* The state says that the event was stamped before the call: the daemon must wait for it.
	 */
	ck_assert_int_eq(real.state, ABI_SLOT_IN_UNMAPPING);
	check_count(1);
	check_event(&events[0], ABI_CALL_UNMAP, 0x7000, 4096, 0, 0);
}

HT_TEST(remapping)
{
	setup(ABI_MAPPING_MREMAP, 0x9000);
	void *got = heaptap_hook_mremap((void *)0x7000, 4096, 8192, 1, (void *)0x123, &self);
	ck_assert_ptr_eq(got, (void *)0x9000);
	check_args(0x7000, 4096, 3, (const uint64_t[]){8192, 1, 0x123});
	ck_assert_int_eq(real.state, ABI_SLOT_IN_UNMAPPING);
	check_count(2);
	check_event(&events[0], ABI_CALL_MOVE_FROM, 0x7000, 4096, 0, 1);
	check_event(&events[1], ABI_CALL_MOVE_TO, 0x9000, 8192, 0, 1);
	ck_assert_uint_le(events[0].tsc, events[1].tsc);

	/* MREMAP_DONTUNMAP: the old range stays. */
	setup(ABI_MAPPING_MREMAP, 0x9000);
	heaptap_hook_mremap((void *)0x7000, 4096, 4096, 5, NULL, &self);
	check_count(2);
	check_event(&events[0], ABI_CALL_MOVE_FROM, 0x7000, 0, 0, 5);
}

HT_TEST(protecting)
{
	setup(ABI_MAPPING_MPROTECT, 0);
	ck_assert_int_eq(heaptap_hook_mprotect((void *)0x7000, 4096, 5, &self), 0);
	check_args(0x7000, 4096, 1, (const uint64_t[]){5});
	ck_assert_int_eq(real.state, ABI_SLOT_IN_MAPPING);
	check_count(1);
	check_event(&events[0], ABI_CALL_PROTECT, 0x7000, 4096, 5, 0);
}

HT_TEST(advice_that_gives_back)
{
	for (int advice = 0; advice < 30; advice++) {
		bool gives_back = advice == 4 || advice == 8;
		setup(ABI_MAPPING_MADVISE, 0);
		ck_assert_int_eq(heaptap_hook_madvise((void *)0x7000, 4096, advice, &self), 0);
		check_args(0x7000, 4096, 1, (const uint64_t[]){(uint64_t)advice});
		check_count(gives_back);
		if (gives_back)
			check_event(&events[0], ABI_CALL_ADVISE, 0x7000, 4096, 0, (uint32_t)advice);
	}
}

HT_TEST(failures_are_not_recorded)
{
	setup(ABI_MAPPING_MMAP, UINT64_MAX);
	ck_assert_ptr_eq(call_mmap(0, 4096, 3, 0x22, -1, 0), (void *)-1);
	ck_assert_int_eq(errno, 1234);
	check_count(0);
	setup(ABI_MAPPING_MREMAP, UINT64_MAX);
	ck_assert_ptr_eq(heaptap_hook_mremap((void *)0x7000, 4096, 1, 0, NULL, &self), (void *)-1);
	check_count(0);
	for (unsigned i = 0; i < 3; i++) {
		setup(ABI_MAPPING_MUNMAP, UINT64_MAX);
		int got = i == 0   ? heaptap_hook_munmap((void *)0x7000, 1, &self)
			  : i == 1 ? heaptap_hook_mprotect((void *)0x7000, 1, 1, &self)
				   : heaptap_hook_madvise((void *)0x7000, 1, 4, &self);
		ck_assert_int_eq(got, -1);
		ck_assert_int_eq(errno, 1234);
		check_count(0);
	}
}

/* Nothing is written in a forked child, nor where the clock may not be read. */
HT_TEST(only_forwarded)
{
	static const enum abi_alive alive[] = {ABI_FORKED, ABI_MUTE};
	for (size_t i = 0; i < HT_ARRAY_SIZE(alive); i++) {
		setup(ABI_MAPPING_MMAP, 0x7000);
		world_state->alive = alive[i];
		ck_assert_ptr_eq(call_mmap(0, 4096, 3, 0x22, -1, 0), (void *)0x7000);
		ck_assert_int_eq(heaptap_hook_munmap((void *)0x7000, 4096, &self), 0x7000);
		heaptap_hook_mremap((void *)0x7000, 4096, 8192, 1, NULL, &self);
		ck_assert_uint_eq(real.calls, 3);
		ck_assert_ptr_null(world_my_slot(0));
	}
}

/* A buffer that has no room for all the words goes to the daemon first. */
HT_TEST(buffers_hold_whole_mappings)
{
	setup(ABI_MAPPING_MPROTECT, 0);
	for (unsigned i = 0; i < 3000; i++)
		heaptap_hook_mprotect((void *)(0x1000 * (uint64_t)i), 4096, 1, &self);
	ck_assert_uint_ge(world_messages, 2);
	ck_assert_uint_eq(world_my_slot(0)->head.mappings, 3000);
	struct abi_slot *slot = world_my_slot(0);
	ck_no_err(bytes_out_put(
		&world_received, slot->buffer, slot->head.committed - slot->head.buffer_start));
	struct event_decoder decoder = {0};
	struct bytes in = bytes_of(world_received.data, world_received.length);
	struct event event;
	event_decoder_restart(&decoder);
	for (unsigned i = 0; i < 3000; i++) {
		ck_assert_int_eq(event_next(&decoder, &in, &event), EVENT_OK);
		ck_assert_uint_eq(event.addr, 0x1000 * (uint64_t)i);
	}
	ck_assert_int_eq(event_next(&decoder, &in, &event), EVENT_NONE_LEFT);
}

HT_SUITE("agent/mapping")
