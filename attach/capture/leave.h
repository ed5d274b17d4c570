/* SPDX-License-Identifier: Apache-2.0
 *
 * How a capture leaves its target: the agent is taken out, what is there is compared with the
 * picture before, children are cleaned, and what stays is named.
 */
#pragma once

#include "attach/capture/bring_in.h"
#include "attach/capture/change.h"
#include "attach/capture/leftpage.h"
#include "attach/capture/remains.h"
#include "attach/capture/report.h"
#include "attach/capture/window.h"

/* The caller sets all of it; the pointers are borrowed. */
struct leave {
	const struct session_options *options;
	struct session_report *report;
	struct survey *survey;
	struct journal *journal;
	struct inside *inside;
	struct change *change;
	struct times *times;
	const struct window *window;
	struct residue *residue; /* the picture before */
	struct sink *sink;
	/* Called while the agent is removed, if it was brought in: events still come. */
	void (*pump)(void *context);
	void *context;
	struct remains remains;
	struct leftpage leftpage;
};

/* Takes the agent out, compares, and reports: report->detached, level, verify. The target may have
 * ended meanwhile (change.is_gone); that is no error. */
HT_MUST_CHECK
struct ht_err *leave_take_out(struct leave *leave);
/* After a failed attach: nothing may be left. */
HT_MUST_CHECK
struct ht_err *leave_roll_back(struct leave *leave);
/* Cleans the target's children, unless the target itself has something left: as long as it has, so
 * will each new child, and the guardian cleans them. */
HT_MUST_CHECK
struct ht_err *leave_clean_children(struct leave *leave);
