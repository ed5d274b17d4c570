/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/daemon/single_thread.h"

#define PERIOD_NS 4000000u

#define load(at) __atomic_load_n(at, __ATOMIC_ACQUIRE)

static void note_marker(struct single_thread *sole, uint32_t slot)
{
	bool is_only = sole->marker == 0 || sole->marker == slot + 1;
	sole->marker = is_only ? slot + 1 : SINGLE_THREAD_SEVERAL;
}

/* Returns the key of the only slot that has recorded since the last look, if all other slots are
 * idle; otherwise 0. */
static uint64_t find_sole(struct single_thread *sole, const struct abi_control *control,
	const struct abi_slot *slots, uint32_t slot_max)
{
	uint64_t key = 0;
	unsigned moved = 0;
	bool rest = true;

	for (uint32_t i = 0; i < slot_max; i++) {
		if (!(load(&control->claimed[i / 64]) >> i % 64 & 1))
			continue;
		const struct abi_slot_head *head = &slots[i].head;
		uint64_t committed = load(&head->committed), owner = load(&head->key);
		if (committed != sole->committed[i]) {
			moved++;
			key = owner;
			note_marker(sole, i);
		} else if (owner && !(owner & ABI_SLOT_DEAD)) {
			rest &= load(&head->state) == ABI_SLOT_IDLE;
		}
		sole->committed[i] = committed;
	}
	return moved == 1 && rest && !(key & (ABI_SLOT_DEAD | ABI_SOLE_PROPOSED)) ? key : 0;
}

static void exchange(struct abi_control *control, uint64_t seen, uint64_t value)
{
	__atomic_compare_exchange_n(
		&control->sole, &seen, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

/* A thread that records alone leaves no marks, so the marks of others become wrong. If another
 * thread leaves a mark from here on, the next look finds that thread recording, and does not
 * confirm the proposal. */
static void clear_marks(struct single_thread *sole, uint64_t *last)
{
	for (uint32_t i = 0; i < ABI_LAST_WORDS; i++)
		__atomic_store_n(&last[i], 0, __ATOMIC_RELAXED);
	sole->marker = 0;
}

void single_thread_look(struct single_thread *sole, struct abi_control *control,
	const struct abi_slot *slots, uint32_t slot_max, uint64_t *last, uint64_t now_ns)
{
	if (now_ns < sole->next_ns)
		return;
	sole->next_ns = now_ns + PERIOD_NS;
	uint64_t key = find_sole(sole, control, slots, slot_max);
	uint64_t proposed = sole->proposed;

	sole->proposed = 0;
	if (key == 0)
		return;
	if (key == proposed) {
		exchange(control, key | ABI_SOLE_PROPOSED, key);
	} else if (load(&control->sole) != key) {
		exchange(control, 0, key | ABI_SOLE_PROPOSED);
		sole->proposed = key;
		if (sole->marker == SINGLE_THREAD_SEVERAL)
			clear_marks(sole, last);
	}
}
