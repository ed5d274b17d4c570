/* SPDX-License-Identifier: Apache-2.0
 *
 * Carries out the table of plan/taps: makes the thunks, enables them, writes the GOT slots and the
 * code.
 */
#pragma once

#include "attach/plan/taps.h"

struct tap {
	const struct survey *survey;
	const struct agent_elf *elf;
	struct image *image;
	struct journal *journal;
	struct entries *entries; /* hooked at their entry: their slots are left alone */
	struct taps_follow follow;
	size_t tapped; /* running count */
	size_t left;   /* slots that found no room, last time */
	/* Called when the guards are in force, before any hook that could make the agent call the
	 * system. */
	struct ht_err *(*guarded)(void *context);
	void *context;
};

/* Hooks every slot of the survey that is not hooked yet. Binds a lazy slot first, as the dynamic
 * linker would, if the result is certain. HT_ERR_REFUSED if journal or thunk page have no room for
 * some slots: all others are hooked. */
HT_MUST_CHECK
struct ht_err *tap_slots(struct tap *tap);
