/* SPDX-License-Identifier: Apache-2.0
 *
 * One capture of one process, from the first look to the proof that nothing is left: the steps of
 * attach/DESIGN.md, in order.
 */
#pragma once

#include "attach/steer/options.h"
#include "attach/capture/report.h"

/*
 * Runs a capture. After an error nothing was recorded, and nothing is left in the target;
 * HT_ERR_INCOMPLETE says what is left. If the target became another program before it was touched,
 * report->ended says so. The signals of inherited_ending_signals end the window: the caller has
 * blocked them, and the capture takes them by signalfd.
 */
HT_MUST_CHECK
struct ht_err *session_run(const struct session_options *options, struct session_report *ret);
