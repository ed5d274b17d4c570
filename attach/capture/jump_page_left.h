/* SPDX-License-Identifier: Apache-2.0
 *
 * Describes the jump page that a detach had to leave (level 2), and plans for which pages the
 * guardian waits.
 */
#pragma once

#include "attach/capture/report.h"
#include "attach/inject/image.h"
#include "attach/undo/linger.h"

/* The caller sets the first three fields. */
struct jump_page_left {
	const struct proc *proc;
	const struct image *image;
	uint64_t linger_ns;	 /* how long the guardian waits for a page; 0: not at all */
	struct linger_plan plan; /* for the guardian, when all else is done */
};

/* Describes the jump page that the detach `result` left in the target: sets page and why of
 * `report`. If the guardian can wait until the page is unused, also sets report->linger_ns and adds
 * the page to the plan. */
void jump_page_left_note(struct jump_page_left *left, const struct detach_report *result,
	struct session_report *report);
/* As jump_page_left_note, for the pages of the children in `report`: adds them to the plan, and
 * sets report->linger_ns, if the guardian can wait for them. */
void jump_page_left_add_children(struct jump_page_left *left, struct session_report *report);
/* Has the capture left jump pages, in the target or in children, and nothing else? */
bool jump_page_left_is_all(const struct session_report *report);
