/* SPDX-License-Identifier: Apache-2.0
 *
 * An export to DHAT, shown by dh_view in a browser.
 */
#pragma once

#include <stdint.h>

/* The page that dh_view makes of the export prints that so many bytes were allocated, and has no
 * element that a name made. Without chromium it prints that it skips. */
void browser_check(const char *trace, uint64_t allocated_bytes);
