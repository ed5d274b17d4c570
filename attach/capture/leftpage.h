/* SPDX-License-Identifier: Apache-2.0
 *
 * The jump page that a detach had to leave (level 2): in words, and as what the guardian is to
 * wait for.
 */
#pragma once

#include "attach/capture/session_state.h"

/* Describes the page that `result` has left in the target: report->page, report->why, s->linger. */
void leftpage_note(struct session *s, const struct detach_report *result);
/* Adds the pages of the children to s->linger. */
void leftpage_add_children(struct session *s);
/* Has the capture left nothing but pages, here and in children, and is all else as it was? */
bool leftpage_is_all(const struct session_report *report);
