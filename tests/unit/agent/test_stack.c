/* SPDX-License-Identifier: Apache-2.0
 *
 * The agent reads words of a stack that may have become unreadable only by a copy.
 */
#include "agent/stack.h"

#include <sys/mman.h>

#include "agent/sample.h"
#include "tests/unit/agent/world.h"

static uint8_t *pages;

static void setup(void)
{
	world_make();
	world_config->sample_bytes = 4096;
	pages = mmap(NULL, 2 * HT_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		-1, 0);
	ck_assert_ptr_ne(pages, MAP_FAILED);
	sys_fake.readable = pages;
	sys_fake.readable_bytes = HT_PAGE_BYTES;
}

HT_TEST(only_the_page_in_use_is_read_without_a_copy)
{
	uint64_t word = 0, *outer, sp;
	setup();
	outer = (uint64_t *)(pages + HT_PAGE_BYTES);
	sp = (uint64_t)(outer - 8);
	outer[-1] = 11;
	outer[0] = 22;
	ck_assert(stack_load_near(world_config, world_slots, sp, (uint64_t)(outer - 1), &word));
	ck_assert_uint_eq(word, 11);
	ck_assert_uint_eq(sys_fake.calls, 0);
	ck_assert(
		!stack_load_near(world_config, world_slots, sp, (uint64_t)(outer - 1) + 4, &word));
	sys_fake.readable_bytes = 2 * HT_PAGE_BYTES;
	ck_assert(stack_load_near(world_config, world_slots, sp, (uint64_t)outer, &word));
	ck_assert_uint_eq(word, 22);
	ck_assert_uint_gt(sys_fake.calls, 0);
}

/* The last sampled call was forwarded from a place further out, where an array that cannot be read
 * may lie now. */
HT_TEST(where_a_call_was_forwarded_is_no_place_to_read)
{
	setup();
	uint64_t *outer = (uint64_t *)(pages + HT_PAGE_BYTES), *below = outer - 8;
	struct abi_thunk self = world_thunk(ABI_HOOK_MALLOC, (void *)setup);
	struct abi_slot *slot = world_slots;
	const struct thread_frame *frame = (const struct thread_frame *)below;
	below[1] = self.real_lo;
	self.real_len = 1;
	slot->head.stack_lo = (uint64_t)pages;
	slot->head.stack_hi = (uint64_t)pages + 2 * HT_PAGE_BYTES;
	slot->head.bounds_incarnation = slot->head.incarnation;
	sample_draw(&self, slot, frame, 0);
	for (unsigned readable = 0; readable < 2; readable++) {
		struct abi_sampler *sampler = &slot->head.sampler;
		sampler->prev_sp = (uint64_t)outer;
		sampler->prev_pc = *outer = (uint64_t)setup;
		sampler->countdown = 0;
		sys_fake.readable_bytes = (1 + readable) * HT_PAGE_BYTES;
		if (!readable)
			ck_assert_int_eq(mprotect(outer, HT_PAGE_BYTES, PROT_NONE), 0);
		sample_draw(&self, slot, frame, 100);
		ck_assert_uint_eq(sampler->taken, !readable);
		ck_assert_int_eq(mprotect(outer, HT_PAGE_BYTES, PROT_READ | PROT_WRITE), 0);
	}
}

HT_SUITE("agent/stack")
