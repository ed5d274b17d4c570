/* SPDX-License-Identifier: Apache-2.0
 *
 * Pauses of a capture, whoever wants them: recording is paused while anyone does. The trace says
 * so.
 */
#pragma once

#include "attach/inject/image.h"

struct sink;

enum pausing_who {
	PAUSING_USER,	  /* heaptap pause */
	PAUSING_OVERHEAD, /* --max-overhead */
	PAUSING_WHO
};

/* The first three are borrowed, and set by the caller; the rest is 0. */
struct pausing {
	struct sink *sink;
	struct image *image; /* initialised when the agent is in the target */
	const struct agent_elf *elf;
	bool wants[PAUSING_WHO];
	uint64_t since_ns; /* of the present pause; 0: none */
	uint64_t ended_ns; /* length of those that are over */
	uint64_t count;
};

/* Idempotent. After an error it may be paused or not, and is asked again at the next change. */
HT_MUST_CHECK
struct ht_err *pausing_set(struct pausing *pausing, enum pausing_who who, bool is_wanted);

static inline bool pausing_is_on(const struct pausing *pausing)
{
	return pausing->since_ns != 0;
}

/* The length of all pauses up to `now_mono_ns`. */
uint64_t pausing_ns(const struct pausing *pausing, uint64_t now_mono_ns);
