/* SPDX-License-Identifier: Apache-2.0
 *
 * The settle time after the window, in which heaptap records frees, and no new blocks but those
 * into which a realloc makes a recorded block: a block that was about to be freed at the window's
 * end then does not count as live.
 */
#pragma once

#include "attach/inject/image.h"
#include "format/record.h"

struct sink;

struct settle {
	uint64_t wanted_ns;	   /* 0: no settle time */
	uint64_t begin_ns, end_ns; /* CLOCK_MONOTONIC; 0: the window is still open */
};

/* Does a settle time follow a window that ended for this reason? Yes if the duration, a limit on
 * RSS or the end of the command of attach -- CMD ended it; no for any other reason, or if the
 * settle time has begun. */
bool settle_follows(const struct settle *settle, enum rec_end_reason reason);
/* Ends the window, and begins the settle time: from here on new blocks are recorded only as said
 * above. Puts the record before the first function bypasses the agent, so that no event of the
 * window is missing. */
HT_MUST_CHECK
struct ht_err *settle_begin(
	struct settle *settle, struct image *image, const struct agent_elf *elf, struct sink *sink);

static inline bool settle_has_begun(const struct settle *settle)
{
	return settle->begin_ns != 0;
}
