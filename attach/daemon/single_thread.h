/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds out when one thread of the target records alone, and tells the agent so
 * (abi_control.sole): it may then stamp its events without a fence, and without marks in the words
 * at ABI_LAST_OFF.
 */
#pragma once

#include "format/abi_control.h"

/* Zero-initialised is valid. */
struct single_thread {
	uint64_t next_ns;		  /* not looked before */
	uint64_t proposed;		  /* key that was proposed at the last look; 0: none */
	uint64_t committed[ABI_SLOT_MAX]; /* at the last look */
	/* 1 + the only slot that can have left marks since they were cleared; 0: none */
	uint32_t marker;
};

#define SINGLE_THREAD_SEVERAL UINT32_MAX /* as a marker */

/*
 * One look at all slots, at most one in some milliseconds (`now_ns`: CLOCK_MONOTONIC): what an
 * owner stored before one look is seen at the next. `slots`, `control` and `last`, the
 * ABI_LAST_WORDS marks, are the target's to write.
 */
void single_thread_look(struct single_thread *sole, struct abi_control *control,
	const struct abi_slot *slots, uint32_t slot_max, uint64_t *last, uint64_t now_ns);
