/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages in a browser, and an export to DHAT as dh_view shows it there.
 */
#pragma once

#include "format/base.h"

/* Is chromium installed? If not, prints that the check of `what` is skipped. */
bool browser_is_there(const char *what);
/* What the page at this path has become when its scripts have run; malloc'd. */
char *browser_dump(const char *path);

/* The page that dh_view makes of the export prints that so many bytes were allocated, and has no
 * element that a name made. Without chromium it prints that it skips. */
void browser_check(const char *trace, uint64_t allocated_bytes);
