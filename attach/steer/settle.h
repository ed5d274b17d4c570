/* SPDX-License-Identifier: Apache-2.0
 *
 * The time after the window in which only frees of its blocks are recorded: what is still held at
 * its end was not just about to be freed.
 */
#pragma once

#include "attach/inject/image.h"
#include "format/record.h"

struct sink;

struct settle {
	uint64_t wanted_ns;	   /* 0: the capture does not settle */
	uint64_t begin_ns, end_ns; /* CLOCK_MONOTONIC; 0: the window goes on */
};

/* Does a window that ended for this reason settle? Not if a person, an error or the trace's size
 * ended it, or the target is gone. */
bool settle_follows(const struct settle *settle, enum rec_end_reason reason);
/* Ends the window: from here on no new block is recorded. The record is put before the first
 * function bypasses the agent, so that nothing of the window is missing. */
HT_MUST_CHECK
struct ht_err *settle_begin(
	struct settle *settle, struct image *image, const struct agent_elf *elf, struct sink *sink);

static inline bool settle_has_begun(const struct settle *settle)
{
	return settle->begin_ns != 0;
}
