/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares the output of the commands tree, callers, flame and source with the totals of report.
 */
#pragma once

#include <jansson.h>

/* Runs heaptap with these words (ended by NULL); it must end with 0. Returns its output. */
char *faces_run(const char *const words[]);
/* The same, parsed as JSON. */
json_t *faces_load(const char *const words[]);
/* Checks that the sums of the call tree (from the root, and from the leaves), of callers, of
 * callees and of source lines equal the report's; that pages are 80 columns wide; that the SVG is
 * XML. */
void faces_check(const char *trace);
