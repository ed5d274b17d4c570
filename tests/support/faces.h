/* SPDX-License-Identifier: Apache-2.0
 *
 * tree, callers, flame and source of a trace, against the totals of report.
 */
#pragma once

#include <jansson.h>

/* Runs heaptap with these words (ended by NULL); it must end with 0. Returns its output. */
char *faces_run(const char *const words[]);
/* The same, parsed as JSON. */
json_t *faces_load(const char *const words[]);
/* Checks that sums of call trees from both ends, of callers, of callees and of lines are the
 * report's; that pages are 80 columns wide; that the SVG is XML. */
void faces_check(const char *trace);
