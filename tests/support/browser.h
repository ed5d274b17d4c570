/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens pages in a browser, and an export to DHAT in dh_view, the viewer of DHAT.
 */
#pragma once

#include "format/base.h"

/* Is chromium installed? If not, prints that the check of `what` is skipped. */
bool browser_is_there(const char *what);
/* The DOM of the page at this path after its scripts have run; malloc'd. */
char *browser_dump(const char *path);

/* Checks that dh_view shows this total for the trace's export, and that no name of the trace became
 * an element. Without chromium it prints that it skips. */
void browser_check(const char *trace, uint64_t allocated_bytes);
