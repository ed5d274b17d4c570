/* SPDX-License-Identifier: Apache-2.0
 *
 * The time between the first tapped and the last restored slot: events are received, the target is
 * watched, until something ends it.
 */
#pragma once

#include "attach/capture/session_state.h"

/* The agent makes no system call from now on. */
void window_forbid_calls(struct session *s);

/* Runs the window; report->ended says why it ended, session.change.is_gone whether there is a
 * target left. */
HT_MUST_CHECK
struct ht_err *window_run(struct session *s);
