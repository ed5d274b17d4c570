/* SPDX-License-Identifier: Apache-2.0
 *
 * --mark-log: lines of log files become marks. A process of its own reads them and sends marks as a
 * client, so that no file system and no expression delays the capture.
 */
#pragma once

#include "attach/cli/options.h"

/* The window has begun: starts that process, and ends the one of the window before. Nothing without
 * --mark-log. */
void marklog_start(const struct options *options);
/* The window is over. */
void marklog_stop(void);

/* heaptap mark --mark-log: follows the files until the window ends. HT_ERR_REFUSED: there is no
 * such capture. */
HT_MUST_CHECK
struct ht_err *marklog_run(const struct options *options);
