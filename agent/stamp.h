/* SPDX-License-Identifier: Apache-2.0
 *
 * The time stamp of an event. Readers merge the streams by it, so of two events of one block the
 * later must have the later stamp, also across threads. A clock read too early could put a free
 * before the allocation that another thread has just handed over. DESIGN.md lists the cases in
 * which this cannot happen, so that no fence is needed.
 */
#pragma once

#include "agent/config.h"
#include "agent/encode.h"
#include "agent/sys.h"

/* STAMP_SAME_TIME events in a row may share one time: while one thread records alone, or for its
 * own blocks of at most STAMP_SMALL_BYTES. */
#define STAMP_SAME_TIME	  4u
#define STAMP_SMALL_BYTES 512u

/*
 * Reads the clock after all loads before it, so after the load by which this thread received the
 * block from another thread; then sets the slot's mark on the address. `is_late`: the slot had this
 * address recently and will probably have it again; if not, no mark of another address is
 * overwritten.
 */
static HT_NOINLINE uint64_t stamp_fenced(
	const struct abi_config *config, uint64_t *last, uint64_t mark, bool is_late)
{
	uint64_t tsc = sys_tsc();
	/* Load after the fence, which would otherwise wait for this load. */
	uint64_t seen = load_relaxed(last);
	bool is_wanted = abi_last_is_same(seen, mark) ? seen != mark : is_late;
	if (is_wanted && config_alive(config))
		store_relaxed(last, mark);
	return tsc;
}

/* The properties of an event on which its time depends. */
struct stamp_event {
	uint64_t addr; /* of the block */
	bool has_addr; /* false: REALLOC_FREED or REALLOC_FAIL, which are about the previous event's
			  block */
	bool is_small; /* the block has STAMP_SMALL_BYTES at most */
	bool is_freed; /* a free: the block is also small if its recent allocation says so */
};

/* `repeated`: the time of the previous event, if this event may share it; 0: it may not. */
static inline __attribute__((always_inline)) uint64_t stamp_of_block(
	const struct abi_config *config, struct abi_slot *slot, struct stamp_event event,
	uint64_t repeated)
{
	uint64_t index = (uint64_t)(slot - config_slots(config));
	uint64_t *last = (uint64_t *)config_at(config, ABI_LAST_OFF) + abi_last_index(event.addr);
	uint64_t mark = abi_last_mark(event.addr, index);
	uint64_t recent = load_relaxed(&slot->head.recent[abi_recent_index(event.addr)]);
	bool is_late = (recent & ~ENCODE_FLAGS) == event.addr;
	bool is_small = event.is_freed ? recent & ENCODE_SMALL : event.is_small;
	if (ht_unlikely(event.addr % ABI_LAST_UNIT != 0))
		return sys_tsc();
	if (ht_likely(is_late && load_relaxed(last) == mark))
		return repeated && is_small ? repeated : sys_tsc_early();
	return stamp_fenced(config, last, mark, is_late);
}

/* The time of the slot's next event; 0: recording has stopped. */
static inline __attribute__((always_inline)) uint64_t stamp(
	const struct abi_config *config, struct abi_slot *slot, struct stamp_event event)
{
	struct abi_slot_head *head = &slot->head;
	struct abi_control *control = config_control(config);
	uint64_t sole = load_relaxed(&control->sole), tick = load_relaxed(&control->tick);
	uint64_t key = head->key, last_tsc = head->last_tsc;
	bool is_sole = sole == key;
	bool may_repeat = head->events % STAMP_SAME_TIME != 0 && head->last_tick == tick;
	if (ht_likely(is_sole && may_repeat))
		return last_tsc;
	/* A signal handler may have forbidden the clock, or forked, during this call. */
	if (ht_unlikely(!config_recording(config)))
		return 0;
	if (sole != 0 && (sole & ~ABI_SOLE_PROPOSED) != key)
		store_release(&control->sole, 0);
	store_relaxed(&head->last_tick, tick);
	uint64_t tsc = is_sole || !event.has_addr
			       ? sys_tsc_early()
			       : stamp_of_block(config, slot, event, may_repeat ? last_tsc : 0);
	tsc = abi_time_floor(tsc);
	/* Clocks of two processors may differ slightly; time must not go back in a stream. */
	return tsc < last_tsc ? last_tsc : tsc;
}
