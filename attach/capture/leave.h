/* SPDX-License-Identifier: Apache-2.0
 *
 * How a capture leaves its target: heaptap removes the agent, compares the target with the picture
 * from before the attach, cleans the children, and names leftovers.
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
	/* Called repeatedly while the agent is removed, as threads in its hooks still record
	 * events; not if no receiver was created. */
	void (*pump)(void *context);
	void *context;
	struct remains remains;
	struct jump_page_left jump_page_left;
};

/* Removes the agent, compares, and sets report->detached, level, why, verify and the counts of
 * slots. If the detach fails, that is no error: level is DETACH_INCOMPLETE and `why` says what
 * stays. If the target ends meanwhile (change.is_gone), that is no error either, and
 * report->detached is false. An error means that the comparison failed. */
HT_MUST_CHECK
struct ht_err *leave_take_out(struct leave *leave);
/* Detaches after a failed attach. HT_ERR_INCOMPLETE names what is left; other errors as of
 * leave_take_out; NULL: nothing is left. */
HT_MUST_CHECK
struct ht_err *leave_roll_back(struct leave *leave);
/* Cleans the target's children, unless the target itself is not clean: then each new child inherits
 * the leftovers, and the guardian cleans the children later. */
HT_MUST_CHECK
struct ht_err *leave_clean_children(struct leave *leave);
