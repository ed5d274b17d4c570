/* SPDX-License-Identifier: Apache-2.0
 *
 * The jump page that a detach had to leave (level 2): describes it, and plans what the guardian
 * waits for.
 */
#pragma once

#include "attach/capture/report.h"
#include "attach/inject/image.h"
#include "attach/undo/linger.h"

/* The caller sets the first three fields. */
struct leftpage {
	const struct proc *proc;
	const struct image *image;
	uint64_t linger_ns;	 /* how long the guardian waits for a page; 0: not at all */
	struct linger_plan plan; /* for the guardian, when all else is done */
};

/* Describes the page that `result` has left in the target: sets page, linger_ns and why of
 * `report`, and adds the page to the plan. */
void leftpage_note(
	struct leftpage *left, const struct detach_report *result, struct session_report *report);
/* Adds the pages of the children in `report` to the plan, and sets report->linger_ns. */
void leftpage_add_children(struct leftpage *left, struct session_report *report);
/* Has the capture left nothing but pages, here and in children, and is all else as it was? */
bool leftpage_is_all(const struct session_report *report);
