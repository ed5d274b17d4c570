/* SPDX-License-Identifier: Apache-2.0
 *
 * Pauses of a capture: recording is paused as long as the user or the overhead limit wants that.
 * The trace records the pauses.
 */
#pragma once

#include "attach/inject/image.h"

struct sink;

enum pausing_who {
	PAUSING_USER,	  /* heaptap pause */
	PAUSING_OVERHEAD, /* --max-overhead */
	PAUSING_WHO
};

/* The caller sets the first three fields, borrowed; the others are 0. */
struct pausing {
	struct sink *sink;
	struct image *image; /* initialised when the agent is in the target */
	const struct agent_elf *elf;
	bool wants[PAUSING_WHO];
	uint64_t since_ns; /* when the current pause began; 0: none */
	uint64_t ended_ns; /* length of the pauses that are over */
	uint64_t count;
};

/* Sets whether `who` wants a pause. Idempotent. After an error recording may be paused or not; the
 * next change tries again. */
HT_MUST_CHECK
struct ht_err *pausing_set(struct pausing *pausing, enum pausing_who who, bool is_wanted);

static inline bool pausing_is_on(const struct pausing *pausing)
{
	return pausing->since_ns != 0;
}

/* The length of all pauses up to `now_mono_ns`. */
uint64_t pausing_ns(const struct pausing *pausing, uint64_t now_mono_ns);
