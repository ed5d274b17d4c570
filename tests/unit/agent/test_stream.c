/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests what the agent encodes is what the reader decodes, across buffers.
 */
#include "agent/stream.h"

#include "agent/stamp.h"
#include "agent/thread.h"
#include "tests/unit/agent/world.h"

static struct event events[WORLD_EVENTS_MAX];

static struct abi_slot *slot_make(void)
{
	struct abi_slot *slot = &world_slots[3];
	slot->head.key = sys_fake_thread_pointer + 1;
	slot->head.tid = WORLD_TID;
	return slot;
}

static uint64_t random_state;

static uint64_t random_u64(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

/* Returns a number of any length in bits, so that each length code and its limits occur. */
static uint64_t random_number(void)
{
	return random_u64() >> random_u64() % 64;
}

/* Half of the addresses have come before. */
static uint64_t random_addr(void)
{
	static uint64_t known[64];
	uint64_t *one = &known[random_u64() % HT_ARRAY_SIZE(known)];
	if (random_u64() % 2)
		*one = random_number();
	return *one;
}

static struct stream_event random_event(void)
{
	struct stream_event event = {
		.kind = (enum abi_event_kind)(
			ABI_EVENT_ALLOC + random_u64() % (ABI_EVENT_REALLOC_FAIL - 1)),
		.hook = random_u64() % ABI_HOOK_COUNT,
		.addr = random_addr(),
		.size = random_number(),
		.stack = random_u64() % (1u << ABI_NODE_BITS) >> random_u64() % ABI_NODE_BITS,
	};
	if (event.kind != ABI_EVENT_ALLOC && event.kind != ABI_EVENT_REALLOC_END)
		event.stack = 0;
	if (event.kind == ABI_EVENT_REALLOC_FREED || event.kind == ABI_EVENT_REALLOC_FAIL)
		event.hook = event.addr = event.size = 0;
	return event;
}

static void check_same(const struct event *got, const struct stream_event *put)
{
	ck_assert_int_eq(got->kind, put->kind);
	ck_assert_uint_eq(got->hook, put->hook);
	ck_assert_uint_eq(got->addr, put->addr);
	ck_assert_uint_eq(got->size, put->size);
	ck_assert_uint_eq(got->stack, put->stack);
	ck_assert_uint_eq(got->tid, WORLD_TID);
}

HT_TEST(decoder_reads_what_was_put)
{
	static struct stream_event put[2000];
	static uint64_t tsc[2000];
	random_state = 1;
	for (size_t round = 0; round < 50; round++) {
		world_make();
		struct abi_slot *slot = slot_make();
		for (size_t i = 0; i < HT_ARRAY_SIZE(put); i++) {
			put[i] = random_event();
			sys_fake.tsc += random_number() >> 8;
			uint64_t now = abi_time_floor(sys_fake.tsc);
			stream_put(world_config, slot, &put[i]);
			tsc[i] = slot->head.last_tsc;
			if (i == 0 || tsc[i] != tsc[i - 1])
				ck_assert_uint_eq(tsc[i], now);
		}
		ck_assert_uint_eq(world_messages, 0);
		ck_assert_uint_eq(world_events(slot, events, WORLD_EVENTS_MAX), HT_ARRAY_SIZE(put));
		for (size_t i = 0; i < HT_ARRAY_SIZE(put); i++) {
			check_same(&events[i], &put[i]);
			ck_assert_uint_eq(events[i].tsc, tsc[i]);
		}
		ck_assert_uint_eq(slot->head.events, HT_ARRAY_SIZE(put));
		ck_assert_uint_eq(slot->head.last_tsc, tsc[HT_ARRAY_SIZE(put) - 1]);
	}
}

static uint64_t put_length(struct abi_slot *slot, const struct stream_event *event)
{
	uint64_t before = slot->head.committed;
	stream_put(world_config, slot, event);
	return slot->head.committed - before;
}

HT_TEST(typical_events_are_short)
{
	world_make();
	struct abi_slot *slot = slot_make();
	struct stream_event got = {.kind = ABI_EVENT_ALLOC, .addr = 0x7f0000001000, .size = 64};
	struct stream_event near = {.kind = ABI_EVENT_ALLOC, .addr = 0x7f0000000e00, .size = 64};
	struct stream_event given = {.kind = ABI_EVENT_FREE, .addr = 0x7f0000001000};
	stream_put(world_config, slot, &got);
	ck_assert_uint_eq(put_length(slot, &near), 7);
	ck_assert_uint_eq(put_length(slot, &given), 4);
	ck_assert_uint_eq(put_length(slot, &got), 6);
	given.size = 72;
	ck_assert_uint_eq(put_length(slot, &given), 5);
	ck_assert_uint_eq(world_events(slot, events, WORLD_EVENTS_MAX), 5);
	ck_assert_uint_eq(events[2].addr, got.addr);
	ck_assert_uint_eq(events[2].size, 0);
	ck_assert_uint_eq(events[4].size, 72);
}

/* The agent's knowledge of a block holds from its allocation to its free, within one buffer. */
HT_TEST(allocations_of_late_are_known)
{
	world_make();
	struct abi_slot *slot = slot_make();
	struct stream_event event = {.kind = ABI_EVENT_ALLOC, .addr = 0x5000, .size = 1};
	ck_assert(!stream_allocated(slot, 0x5000));
	stream_put(world_config, slot, &event);
	ck_assert(stream_allocated(slot, 0x5000));
	ck_assert(!stream_allocated(slot, 0x5010));
	event.kind = ABI_EVENT_FREE;
	stream_put(world_config, slot, &event);
	ck_assert(!stream_allocated(slot, 0x5000));
	event.kind = ABI_EVENT_REALLOC_END;
	stream_put(world_config, slot, &event);
	ck_assert(stream_allocated(slot, 0x5000));
	stream_restart(world_config, slot);
	event.addr = 0x5010;
	stream_put(world_config, slot, &event);
	ck_assert(!stream_allocated(slot, 0x5000));
	event.addr = 0x6001;
	stream_put(world_config, slot, &event);
	ck_assert(!stream_allocated(slot, 0x6000));
}

HT_TEST(time_does_not_go_back)
{
	world_make();
	struct abi_slot *slot = slot_make();
	struct stream_event event = {.kind = ABI_EVENT_FREE, .addr = 16};
	sys_fake.tsc = 5000;
	stream_put(world_config, slot, &event);
	sys_fake.tsc = 4000;
	stream_put(world_config, slot, &event);
	sys_fake.tsc = 6000;
	stream_put(world_config, slot, &event);
	ck_assert_uint_eq(world_events(slot, events, WORLD_EVENTS_MAX), 3);
	ck_assert_uint_eq(events[1].tsc, abi_time_floor(5000));
	ck_assert_uint_eq(events[2].tsc, abi_time_floor(6000));
}

HT_TEST(full_buffers_are_sent)
{
	static struct stream_event put[WORLD_EVENTS_MAX];
	static uint8_t all[WORLD_EVENTS_MAX * ABI_EVENT_MAX_BYTES];
	uint64_t position = 0, length = 0;
	size_t count = 0, decoded = 0;
	random_state = 2;
	world_make();
	struct abi_slot *slot = slot_make();
	while (count < WORLD_EVENTS_MAX) {
		put[count] = random_event();
		stream_put(world_config, slot, &put[count++]);
		ck_assert_uint_le(slot->head.committed - slot->head.buffer_start, ABI_BUFFER_BYTES);
		if (world_received.length == 0)
			continue;
		ck_assert_uint_eq(world_last_message.slot, 3);
		ck_assert_uint_eq(world_last_message.position, position);
		ck_assert_uint_le(world_last_message.length, ABI_BUFFER_BYTES);
		ck_assert_uint_gt(world_last_message.length, ABI_BUFFER_BYTES - 64);
		size_t n = world_decode(world_received.data, world_received.length,
			events + decoded, WORLD_EVENTS_MAX - decoded);
		ck_assert_uint_eq(n, world_last_message.events);
		decoded += n;
		position += world_received.length;
		ck_assert_uint_eq(slot->head.buffer_start, position);
		world_received.length = 0;
	}
	ck_assert_uint_ge(world_messages, 3);
	length = slot->head.committed - slot->head.buffer_start;
	memcpy(all, slot->buffer, length);
	decoded += world_decode(all, length, events + decoded, WORLD_EVENTS_MAX - decoded);
	ck_assert_uint_eq(decoded, count);
	for (size_t i = 0; i < count; i++)
		check_same(&events[i], &put[i]);
	ck_assert_uint_eq(slot->head.events, count);
}

HT_TEST(announces_new_thread)
{
	world_make();
	struct abi_slot *slot = slot_make();
	struct stream_event event = {.kind = ABI_EVENT_FREE, .addr = 16};
	stream_announce(world_config, slot); /* writes nothing in an empty buffer */
	ck_assert_uint_eq(slot->head.committed, 0);
	stream_put(world_config, slot, &event);
	slot->head.tid = 99;
	stream_announce(world_config, slot);
	stream_put(world_config, slot, &event);
	ck_assert_uint_eq(world_events(slot, events, WORLD_EVENTS_MAX), 2);
	ck_assert_uint_eq(events[0].tid, WORLD_TID);
	ck_assert_uint_eq(events[1].tid, 99);
	ck_assert_uint_eq(events[1].addr, 16);
}

HT_TEST(restart_forgets_delta_state)
{
	world_make();
	struct abi_slot *slot = slot_make();
	struct stream_event event = {.kind = ABI_EVENT_FREE, .addr = 0x1230};
	stream_put(world_config, slot, &event);
	slot->head.last_addr = 0xbad; /* as a handler that jumps out of stream_put leaves it */
	stream_restart(world_config, slot);
	ck_assert_uint_eq(world_messages, 1);
	stream_put(world_config, slot, &event);
	ck_assert_uint_eq(world_events(slot, events, WORLD_EVENTS_MAX), 1);
	ck_assert_uint_eq(events[0].addr, 0x1230);
}

/* A process that shares memory and thread pointer may write the same slot at the same time. */
HT_TEST(garbage_in_the_head_stays_in_the_buffer)
{
	world_make();
	struct abi_slot *slot = slot_make();
	random_state = 3;
	for (size_t i = 0; i < 20000; i++) {
		slot->head.committed = random_number();
		slot->head.buffer_start =
			i % 2 ? random_number() : slot->head.committed - random_number();
		slot->head.last_addr = random_u64();
		slot->head.first_event = random_number();
		struct stream_event event = random_event();
		stream_put(world_config, slot, &event);
		if (i % 3 == 0)
			stream_announce(world_config, slot);
		world_received.length = 0;
	}
	for (size_t i = 0; i < 64; i++)
		ck_assert_uint_eq(slot->frames[i], 0);
	ck_assert_uint_eq(slot->head.key, sys_fake_thread_pointer + 1);
}

/* For a block that is new to the slot, only the slot that control->sole names reads the clock
 * without a fence. Another slot first clears that word, even if it is only a proposal. */
HT_TEST(time_stamps_in_order)
{
	struct stream_event event = {.kind = ABI_EVENT_FREE};
	world_make();
	struct abi_slot *slot = slot_make();
	uint64_t key = slot->head.key, other = key + 16;
	const struct {
		uint64_t sole, after;
		bool early;
	} cases[] = {
		{0, 0, false},
		{key, key, true},
		{key | ABI_SOLE_PROPOSED, key | ABI_SOLE_PROPOSED, false},
		{other, 0, false},
		{other | ABI_SOLE_PROPOSED, 0, false},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(cases); i++) {
		world_control->sole = cases[i].sole;
		sys_fake.fences = 0;
		event.addr += 0x1000;
		stream_put(world_config, slot, &event);
		ck_assert_uint_eq(world_control->sole, cases[i].after);
		ck_assert_uint_eq(sys_fake.fences, cases[i].early ? 0 : 1);
	}
}

/* Puts an event of the block; returns how many fences it took. */
static uint64_t fences_of(struct abi_slot *slot, enum abi_event_kind kind, uint64_t addr)
{
	struct stream_event event = {.kind = kind, .addr = addr};
	uint64_t before = sys_fake.fences;
	stream_put(world_config, slot, &event);
	return sys_fake.fences - before;
}

static uint64_t pair_fences(struct abi_slot *slot, uint64_t addr)
{
	uint64_t alloc = fences_of(slot, ABI_EVENT_ALLOC, addr);
	return alloc + fences_of(slot, ABI_EVENT_FREE, addr);
}

/* While one thread owns a block, only its first events need a fence. */
HT_TEST(own_blocks_need_no_fence)
{
	world_make();
	struct abi_slot *mine = slot_make(), *other = &world_slots[4];
	other->head.key = sys_fake_thread_pointer + 2;
	ck_assert_uint_eq(pair_fences(mine, 0x5008), 2);
	ck_assert_uint_eq(pair_fences(mine, 0x5008), 0);
	ck_assert_uint_eq(fences_of(mine, ABI_EVENT_ALLOC, 0x5008), 0);
	ck_assert_uint_eq(fences_of(other, ABI_EVENT_FREE, 0x5008), 1);
	ck_assert_uint_eq(pair_fences(mine, 0x5008), 1);
	ck_assert_uint_eq(pair_fences(mine, 0x6004), 2);
	ck_assert_uint_eq(pair_fences(mine, 0x6004), 2);
	ck_assert_uint_eq(fences_of(mine, ABI_EVENT_REALLOC_FREED, 0), 0);
}

/* Puts `count` events of a block, allocation and free in turn; returns how many have a time of
 * their own. */
static unsigned own_times(struct abi_slot *slot, uint64_t addr, uint64_t size, unsigned count)
{
	unsigned own = 0;
	for (unsigned i = 0; i < count; i++) {
		enum abi_event_kind kind = i % 2 ? ABI_EVENT_FREE : ABI_EVENT_ALLOC;
		struct stream_event event = {
			.kind = kind, .addr = addr, .size = kind == ABI_EVENT_ALLOC ? size : 0};
		uint64_t before = slot->head.last_tsc;
		sys_fake.tsc += 1000;
		stream_put(world_config, slot, &event);
		own += slot->head.last_tsc != before;
	}
	return own;
}

/* At most four events in a row have the same time. An event gets a time of its own if another
 * thread had the block in between, or if the daemon has looked since the last time. */
HT_TEST(small_blocks_of_one_thread_share_times)
{
	world_make();
	struct abi_slot *mine = slot_make(), *other = &world_slots[4];
	other->head.key = sys_fake_thread_pointer + 2;
	own_times(mine, 0x5000, 64, 4);
	ck_assert_uint_eq(own_times(mine, 0x5000, 512, 8), 2);
	ck_assert_uint_eq(own_times(mine, 0x5000, 513, 8), 8);
	own_times(other, 0x5000, 64, 2);
	ck_assert_uint_eq(own_times(mine, 0x5000, 64, 1), 1);
	own_times(mine, 0x5000, 64, 7);
	own_times(mine, 0x5000, 64, 1); /* reads the clock, as each fourth event does */
	world_control->tick++;
	ck_assert_uint_eq(own_times(mine, 0x5000, 64, 1), 1);
	ck_assert_uint_eq(own_times(mine, 0x6000, 64, 1), 1);
}

/* Both sides of a fork write to this memory. */
HT_TEST(forked_children_leave_no_marks)
{
	world_make();
	uint64_t last = 0, *words = (uint64_t *)(world_image + ABI_LAST_OFF);
	world_state->alive = ABI_FORKED;
	(void)stamp_fenced(world_config, &last, abi_last_mark(0x5000, 3), true);
	ck_assert_uint_eq(last, 0);
	world_state->alive = ABI_ALIVE;
	(void)stamp_fenced(world_config, &last, abi_last_mark(0x5000, 3), true);
	ck_assert_uint_eq(last, abi_last_mark(0x5000, 3));
	ck_assert_uint_eq(words[abi_last_index(0x5000)], 0);
}

/* A handler has forked, or forbidden the clock, since the hook was entered: nothing is written, and
 * no clock is read. */
HT_TEST(stopped_recorder_writes_nothing)
{
	static struct abi_slot before;
	const uint64_t alive[] = {ABI_FORKED, ABI_MUTE};
	for (size_t i = 0; i < HT_ARRAY_SIZE(alive) * 2; i++) {
		world_make();
		struct abi_slot *slot = slot_make();
		struct stream_event event = {.kind = ABI_EVENT_ALLOC, .addr = 0x5000, .size = 8};
		/* In an empty buffer, and in one that has begun. */
		if (i % 2)
			stream_put(world_config, slot, &event);
		world_state->alive = alive[i / 2];
		world_control->sole = 0x777000;
		memcpy(&before, slot, sizeof(before));
		uint64_t tsc = sys_fake.tsc;
		stream_put(world_config, slot, &event);
		ck_assert_uint_eq(sys_fake.tsc, tsc);
		ck_assert_uint_eq(world_control->sole, 0x777000);
		ck_assert_uint_eq(slot->head.events, before.head.events);
		if (alive[i / 2] == ABI_FORKED)
			ck_assert_int_eq(memcmp(&before, slot, sizeof(before)), 0);
	}
}

struct past {
	uint64_t addr, tsc;
	const struct abi_slot *slot;
};

/* Makes `count` blocks, some of which share a word of the marks (ABI_LAST_OFF) with another. */
static void make_blocks(struct past *past, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t addr = 0x10000 + 16 * (random_u64() % 0x1000000) + 8 * (i % 3 == 0);
		while (i % 4 == 3 && abi_last_index(addr) != abi_last_index(past[i - 1].addr))
			addr += 16;
		past[i] = (struct past){.addr = i % 16 == 5 ? addr + 1 : addr};
	}
}

/*
 * The analyzer merges streams by stamps. For any owner of a block, and however early an unfenced
 * clock is read, the stamps of the block's events must be in their order.
 */
HT_TEST(events_of_a_block_are_in_order)
{
	enum { SLOTS_USED = 5, EVENTS = 300000 };
	static struct past past[64];
	random_state = 4;
	world_make();
	for (unsigned i = 0; i < SLOTS_USED; i++)
		world_slots[i].head.key = sys_fake_thread_pointer + 16 * i;
	make_blocks(past, HT_ARRAY_SIZE(past));
	sys_fake.tsc_step = 100;
	uint64_t early = 0, crossings = 0;
	for (unsigned i = 0; i < EVENTS; i++) {
		struct abi_slot *slot = &world_slots[random_u64() % SLOTS_USED];
		struct past *block = &past[random_u64() % HT_ARRAY_SIZE(past)];
		uint64_t turns = 1 + random_u64() % 4;
		sys_fake.tsc_early = random_u64() % 4000;
		for (uint64_t turn = 0; turn < turns; turn++) {
			enum abi_event_kind kind = turn % 2 ? ABI_EVENT_FREE : ABI_EVENT_ALLOC;
			early += fences_of(slot, kind, block->addr) == 0;
			uint64_t tsc = slot->head.last_tsc;
			bool is_other = block->slot != slot;
			ck_assert_uint_ge(tsc, block->tsc + is_other);
			crossings += is_other;
			*block = (struct past){.addr = block->addr, .tsc = tsc, .slot = slot};
		}
		world_received.length = 0;
	}
	ck_assert_uint_gt(early, EVENTS / 4);
	ck_assert_uint_gt(crossings, EVENTS / 4);
}

HT_SUITE("agent/stream")
