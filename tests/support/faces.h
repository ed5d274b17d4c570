/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks the output of the commands tree, callers, source and flame: their sums, their form, and
 * the totals of tree against those of report.
 */
#pragma once

#include <jansson.h>

/* Runs heaptap with `words` (ended by NULL); it must end with 0. Returns its stdout, malloc'd. */
char *faces_run(const char *const words[]);
/* The same, parsed as JSON. */
json_t *faces_load(const char *const words[]);
/* Checks that the call tree (from the root, and from the leaves) adds up to the report's totals;
 * that the callers, callees and lines of one function add up to its own figures; that `source`
 * prints JSON for this function; that pages are at most 80 columns wide; that the SVG is XML. */
void faces_check(const char *trace);
