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
	struct entries *entries; /* functions hooked at their entry; their slots are left alone */
	struct taps_follow follow;
	size_t tapped; /* slots and entries hooked so far */
	size_t left;   /* slots for which the last call found no room */
	/* Called when the agent's guards (agent/guard.c) are hooked, before any hook that could
	 * make the agent make a system call. */
	struct ht_err *(*guarded)(void *context);
	void *context;
};

/* Hooks every slot and entry of the survey that is not hooked yet. Binds a lazy slot first, as the
 * dynamic linker would, if the result is certain. HT_ERR_REFUSED: the journal or the thunk page has
 * no room for some slots, and all others are hooked; or an entry could not be hooked. */
HT_MUST_CHECK
struct ht_err *tap_slots(struct tap *tap);
