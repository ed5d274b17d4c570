/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sample.h"

#include "agent/config.h"
#include "agent/nested.h"
#include "agent/slot.h"
#include "agent/stack.h"
#include "agent/sys.h"

/* sample_entry.S uses these offsets. */
_Static_assert(offsetof(struct abi_thunk, real) == 8, "THUNK_REAL");
_Static_assert(offsetof(struct abi_thunk, config) == 16, "THUNK_CONFIG");
_Static_assert(offsetof(struct abi_config, slot_mask) == 56, "CONFIG_MASK");
_Static_assert(ABI_CONFIG_OFF - ABI_STATE_OFF == 0x20000, "CONFIG_TO_STATE");
_Static_assert(ABI_SLOTS_OFF - ABI_CONFIG_OFF == 0x8731000, "CONFIG_TO_SLOTS");
_Static_assert(ABI_FILTER_OFF - ABI_CONFIG_OFF == 0x6861000, "CONFIG_TO_FILTER");
_Static_assert(offsetof(struct abi_state, alive) == 0, "the key");
_Static_assert(ABI_SLOT_BYTES == 1u << 18, "SLOT_SHIFT");
_Static_assert(ABI_FILTER_SHIFT == 10 && ABI_FILTER_BYTES == 1u << 20, "FILTER_SHIFT, FILTER_MASK");

_Static_assert(offsetof(struct abi_slot_head, sampler) == 2304, "SAMPLER_KEY");
_Static_assert(offsetof(struct abi_sampler, countdown) == 8, "SAMPLER_COUNTDOWN");
_Static_assert(offsetof(struct abi_sampler, prev_sp) == 16, "SAMPLER_PREV_SP");
_Static_assert(offsetof(struct abi_sampler, prev_pc) == 24, "SAMPLER_PREV_PC");

/* The longest distance in units of the mean: -log(2^-64) is 44.4. */
#define DISTANCE_MAX 64u

#define LOG2_BITS 32u
#define LN_2	  0xb17217f7d1cf79acull /* times 2^64 */

/*
 * 2^LOG2_BITS times the base-2 logarithm of `number` / 2^63, which lies in [1, 2). Each squaring
 * gives one binary digit (Knuth, The Art of Computer Programming, vol. 1, 1.2.2, exercise 25).
 */
static uint64_t log2_of(uint64_t number)
{
	uint64_t log = 0;
	for (unsigned i = 0; i < LOG2_BITS; i++) {
		unsigned __int128 square = (unsigned __int128)number * number;
		bool is_two = square >> 127;
		log = log << 1 | is_two;
		number = (uint64_t)(square >> (is_two ? 64 : 63));
	}
	return log;
}

/* -log(u) of a uniform u in (0, 1] is exponential (Knuth, vol. 2, 3.4.1 D). */
uint64_t sample_distance(uint64_t random, uint64_t mean_bytes)
{
	unsigned zeros = (unsigned)__builtin_clzll(random);
	uint64_t log = ((uint64_t)zeros + 1) << LOG2_BITS;
	log -= log2_of(random << zeros);
	unsigned __int128 distance = (unsigned __int128)mean_bytes * log >> LOG2_BITS;
	return (uint64_t)(distance * LN_2 >> 64);
}

/* xorshift64* (Vigna, An experimental exploration of Marsaglia's xorshift generators, 2016). */
static uint64_t next_random(struct abi_sampler *sampler)
{
	uint64_t x = sampler->random;
	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	/* xorshift never leaves 0, and the target may write 0 here. */
	sampler->random = x ? x : 1;
	x = sampler->random * 0x2545f4914f6cdd1dull;
	return x ? x : 1;
}

static uint64_t draw_distance(const struct abi_config *config, struct abi_sampler *sampler)
{
	return sample_distance(next_random(sampler), config->sample_bytes);
}

/*
 * Whether the call comes from the allocator, within a forwarded call for which the draw was already
 * made. Only the return address of that outer call, on its caller's stack, shows this. The address
 * may be stale, and unreadable memory may lie there now.
 */
static bool is_nested(
	const struct abi_thunk *self, struct abi_slot *slot, const struct thread_frame *frame)
{
	const struct abi_sampler *sampler = &slot->head.sampler;
	uint64_t lo, hi, word, prev_sp = sampler->prev_sp, sp = (uint64_t)frame->caller_stack - 8;
	if (prev_sp <= sp || prev_sp % 8 != 0)
		return false;
	if (!slot_bounds(&slot->head, &lo, &hi) || sp < lo || prev_sp >= hi)
		return false;
	bool is_near = prev_sp - sp < NESTED_NEAR_BYTES;
	if (!is_near || !nested_is_allocator(self, frame->caller_pc))
		return nested_in_call(config_of(self), slot, frame, prev_sp, sampler->prev_pc);
	if (!stack_load_near(config_of(self), slot, sp, prev_sp, &word))
		return false;
	return word == sampler->prev_pc;
}

/* Resets the sampler for a new thread of the slot. */
static void sampler_claim(const struct abi_config *config, struct abi_slot *slot, uint64_t key)
{
	struct abi_sampler *sampler = &slot->head.sampler;
	sampler->random =
		(sys_tsc_early() ^ (uint64_t)slot->head.tid << 32) * 0x9e3779b97f4a7c15ull;
	(void)next_random(sampler);
	sampler->prev_sp = 0;
	store_relaxed(&sampler->countdown, draw_distance(config, sampler));
	store_release(&sampler->key, key);
}

/* Subtracts `bytes` from the countdown; true if a point lies within them. */
static bool count_down(const struct abi_config *config, struct abi_sampler *sampler, uint64_t bytes)
{
	uint64_t left = load_relaxed(&sampler->countdown);
	/* Wrapped below 0: a handler interrupted sample_entry.S there, or the target overwrote it.
	 */
	if (ht_unlikely(left > config->sample_bytes * DISTANCE_MAX))
		left = draw_distance(config, sampler);
	bool is_at_point = left < bytes;
	store_relaxed(
		&sampler->countdown, is_at_point ? draw_distance(config, sampler) : left - bytes);
	return is_at_point;
}

static uint64_t own_key(const struct abi_config *config)
{
	return sys_thread_pointer() + load_relaxed(&config_state(config)->alive);
}

/*
 * Handles a call that the thread's slot does not draw for: part of another call, or a handler's
 * within a hook. The entry saw that a point is near, so the point must be used up: the remaining
 * distance is exponentially distributed only if the decision does not depend on it.
 */
static void pass_by(const struct abi_config *config, uint64_t bytes)
{
	uint64_t index = sys_thread_pointer() * 0x9e3779b97f4a7c15ull >> 32 & config->slot_mask;
	struct abi_sampler *sampler = &config_slots(config)[index].head.sampler;
	if (load_relaxed(&sampler->key) == own_key(config))
		(void)count_down(config, sampler, bytes);
}

void sample_draw(const struct abi_thunk *self, struct abi_slot *slot,
	const struct thread_frame *frame, uint64_t size)
{
	const struct abi_config *config = config_of(self);
	uint64_t bytes = size == UINT64_MAX ? size : size + 1;
	bool is_nested_slot = slot && slot->head.key & (ABI_NEST_MAX - 1);
	if (!config_recording(config))
		return;
	if (!slot || is_nested_slot)
		pass_by(config, bytes);
	if (!slot)
		return;
	struct abi_sampler *sampler = &slot->head.sampler;
	sampler->gone = 0;
	if (is_nested_slot) {
		sampler->random ^= slot->head.tid;
		sampler->taken = draw_distance(config, sampler) < bytes;
		return;
	}
	uint64_t key = own_key(config);
	if (load_relaxed(&sampler->key) != key)
		sampler_claim(config, slot, key);
	sampler->taken = count_down(config, sampler, bytes) && !is_nested(self, slot, frame);
}

/* --- the addresses of samples --------------------------------------------------------------------
 */

static uint8_t *filter_of(const struct abi_config *config, uint64_t addr)
{
	return (uint8_t *)config_at(config, ABI_FILTER_OFF) +
	       ((addr >> ABI_FILTER_SHIFT) & (ABI_FILTER_BYTES - 1));
}

/* A saturated count stays: it only costs a lookup in the set. */
static void filter_add(const struct abi_config *config, uint64_t addr, uint8_t change)
{
	uint8_t *count = filter_of(config, addr);
	uint8_t seen = load_relaxed(count);
	while (seen != UINT8_MAX && !compare_swap(count, &seen, (uint8_t)(seen + change)))
		;
}

/* Word `i` of the places of `addr`: two lines, chosen by the halves of one product. */
#define PLACES (2u * ABI_SAMPLE_WORDS)

static uint64_t *place_of(const struct abi_config *config, uint64_t addr, unsigned i)
{
	uint64_t hash = (addr >> 4) * 0x9e3779b97f4a7c15ull;
	uint64_t line = i < ABI_SAMPLE_WORDS ? hash >> 48 : hash >> 32;
	struct abi_sample_line *lines =
		(struct abi_sample_line *)config_at(config, ABI_SAMPLES_OFF);
	return &lines[line % ABI_SAMPLE_LINES].addr[i % ABI_SAMPLE_WORDS];
}

static uint64_t *place_find(const struct abi_config *config, uint64_t addr)
{
	for (unsigned i = 0; i < PLACES; i++) {
		uint64_t *place = place_of(config, addr, i);
		if (load_relaxed(place) == addr)
			return place;
	}
	return NULL;
}

bool sample_insert(const struct abi_config *config, uint64_t addr)
{
	if (!config_alive(config))
		return false;
	/* The set still has this address from an older block whose free was not seen. */
	if (place_find(config, addr))
		return true;
	filter_add(config, addr, 1);
	for (unsigned i = 0; i < PLACES; i++) {
		uint64_t nothing = 0, *place = place_of(config, addr, i);
		if (load_relaxed(place) == 0 && compare_swap(place, &nothing, addr))
			return true;
	}
	filter_add(config, addr, UINT8_MAX);
	fetch_add(&config_control(config)->samples_lost, 1);
	return false;
}

bool sample_remove(const struct abi_config *config, uint64_t addr)
{
	if (addr == 0 || !config_alive(config) || load_relaxed(filter_of(config, addr)) == 0)
		return false;
	uint64_t *place = place_find(config, addr), was = addr;
	if (!place || !compare_swap(place, &was, 0))
		return false;
	filter_add(config, addr, UINT8_MAX);
	return true;
}
