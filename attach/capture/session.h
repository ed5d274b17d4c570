/* SPDX-License-Identifier: Apache-2.0
 *
 * One capture of one process, from looking at it to the proof that nothing is left: the steps of
 * attach/DESIGN.md, in order.
 */
#pragma once

#include "attach/steer/options.h"
#include "attach/capture/report.h"

/* Runs a capture. An error means that nothing was recorded and nothing is left in the target (or,
 * for HT_ERR_INCOMPLETE, says what is); where it has become another program before it was touched
 * `ended` says so. The signals of start_ending_signals end the window: the
 * caller has blocked them, and they are taken with signalfd. */
HT_MUST_CHECK
struct ht_err *session_run(const struct session_options *options, struct session_report *ret);
