/* SPDX-License-Identifier: Apache-2.0
 *
 * Carries out the table of taps (plan/taps): makes the thunks, lets them reach the agent, writes
 * the slots and the code.
 */
#pragma once

#include "attach/plan/taps.h"

struct tap {
	const struct survey *survey;
	const struct agent_elf *elf;
	struct image *image;
	struct journal *journal;
	struct entries *entries; /* functions hooked at their entry: their slots are left alone */
	struct taps_follow follow;
	size_t tapped; /* running count */
	size_t left;   /* that found no room the last time */
	/* Called when the guards are in force, and before anything of which the agent could make
	 * system calls. */
	struct ht_err *(*guarded)(void *context);
	void *context;
};

/* Taps every slot of the survey that is not tapped yet. A lazy slot that is not bound yet is bound
 * as the dynamic linker would, where that is beyond doubt. HT_ERR_REFUSED when journal or thunk
 * page have no room for some of them: all others are tapped. */
HT_MUST_CHECK
struct ht_err *tap_slots(struct tap *tap);
