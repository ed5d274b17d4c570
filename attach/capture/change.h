/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a target, or of what it was, in the midst of a session.
 */
#pragma once

#include "attach/capture/session_state.h"
#include "attach/process/proc_open.h"

/* Has the target ended, or become another program? Whatever went wrong then did so because of that:
 * `err` is given up, and s->target_gone and report->ended say it. */
bool change_noticed(struct session *s, struct ht_err **err);
enum rec_end_reason change_reason(const struct session *s, enum proc_change change);
