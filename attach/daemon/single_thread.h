/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds out when one thread of the target records alone, and tells the agent so
 * (abi_control.sole): it may then stamp its events without a fence, and without marks in the words
 * at ABI_LAST_OFF.
 */
#pragma once

#include "format/abi_control.h"

/* Zero-initialised is valid. A "look" is a call of single_thread_look. */
struct single_thread {
	uint64_t next_ns;		  /* no look before this time (CLOCK_MONOTONIC) */
	uint64_t proposed;		  /* the slot key that the last look proposed; 0: none */
	uint64_t committed[ABI_SLOT_MAX]; /* abi_slot_head.committed at the last look */
	/* 1 + the only slot that can have left marks since the last clearing; 0: none; or
	 * SINGLE_THREAD_SEVERAL */
	uint32_t marker;
};

#define SINGLE_THREAD_SEVERAL UINT32_MAX /* in `marker`: several slots */

/* Looks at all slots, at most once in 4 ms (`now_ns`: CLOCK_MONOTONIC); a word that a slot's owner
 * stored before one look is visible at the next. `last`: the ABI_LAST_WORDS marks. The target can
 * write to `slots`, `control` and `last`. */
void single_thread_look(struct single_thread *sole, struct abi_control *control,
	const struct abi_slot *slots, uint32_t slot_max, uint64_t *last, uint64_t now_ns);
