/* SPDX-License-Identifier: Apache-2.0
 *
 * How a capture leaves its target: the agent is removed, the target is compared with the picture
 * from before the attach, children are cleaned, and leftovers are named.
 */
#pragma once

#include "attach/capture/bring_in.h"
#include "attach/capture/change.h"
#include "attach/capture/jump_page_left.h"
#include "attach/capture/remains.h"
#include "attach/capture/report.h"
#include "attach/capture/window.h"

/* The caller sets every field; the pointers are borrowed. */
struct leave {
	const struct session_options *options;
	struct session_report *report;
	struct survey *survey;
	struct journal *journal;
	struct inside *inside;
	struct change *change;
	struct times *times;
	const struct window *window;
	struct residue *residue; /* the picture from before the attach */
	struct sink *sink;
	/* Called while the agent is removed, if there was one: it still sends events. */
	void (*pump)(void *context);
	void *context;
	struct remains remains;
	struct jump_page_left jump_page_left;
};

/* Removes the agent, compares, and reports: sets report->detached, level and verify. The target may
 * end meanwhile (change.is_gone); that is no error. */
HT_MUST_CHECK
struct ht_err *leave_take_out(struct leave *leave);
/* Detaches after a failed attach; an error names what is left. */
HT_MUST_CHECK
struct ht_err *leave_roll_back(struct leave *leave);
/* Cleans the target's children, unless the target itself is not clean: then each new child inherits
 * the leftovers, and the guardian cleans the children later. */
HT_MUST_CHECK
struct ht_err *leave_clean_children(struct leave *leave);
