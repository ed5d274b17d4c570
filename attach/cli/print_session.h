/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints the result of a capture, as text and as one JSON object: how the process was left, what
 * the trace lacks, where the trace is.
 */
#pragma once

#include "attach/capture/report.h"

/* Prints on standard error: the result of the comparison, warnings, the trace, the next command.
 * `verbose` adds each of the six checks, times and counts. `has_next` adds the command that shows
 * the trace. */
void print_session(
	const struct session_report *report, const char *trace, bool verbose, bool has_next);
/* Prints "schema": "heaptap.attach/1" on standard output. */
HT_MUST_CHECK
struct ht_err *print_session_json(
	const struct session_report *report, pid_t pid, const char *trace);
