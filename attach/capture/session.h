/* SPDX-License-Identifier: Apache-2.0
 *
 * One capture of one process, from the first look to the proof that nothing is left: the steps of
 * attach/DESIGN.md, in order.
 */
#pragma once

#include "attach/steer/options.h"
#include "attach/capture/report.h"

/*
 * Runs a capture, and sets all of `*ret`, also after an error. An error may come before or after
 * the recording: ret->trace_finished says whether there is a readable trace. Then nothing of
 * heaptap is left in the target, unless the error is HT_ERR_INCOMPLETE, which names leftovers.
 * Without an error, level, verify and children of `*ret` say what is left. HT_ERR_REFUSED also if
 * the target ended or became another program before heaptap touched it; ret->ended is
 * REC_END_TARGET_EXEC for the latter. The signals of inherited_ending_signals end the window: the
 * caller has blocked them, and the capture takes them by signalfd.
 */
HT_MUST_CHECK
struct ht_err *session_run(const struct session_options *options, struct session_report *ret);
