/* SPDX-License-Identifier: Apache-2.0
 *
 * --mark-log: lines of log files become marks. A separate process reads them and sends marks as a
 * client, so that neither a file system nor a regular expression delays the capture.
 */
#pragma once

#include "attach/cli/options.h"

/* Call it when a window has begun: starts that process, and kills the one of the window before.
 * Starts nothing without --mark-log. */
void marklog_start(const struct options *options);
/* Call it when the window is over: kills that process. */
void marklog_stop(void);

/* heaptap mark --mark-log, which is that process: follows the files until the window ends.
 * HT_ERR_REFUSED: process options->pid is not being recorded. */
HT_MUST_CHECK
struct ht_err *marklog_run(const struct options *options);
