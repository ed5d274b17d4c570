/* SPDX-License-Identifier: Apache-2.0
 *
 * What heaptap says at the end of a command: for people on the terminal, and as one JSON object.
 */
#pragma once

#include <jansson.h>
#include <stdio.h>

#include "attach/session.h"
#include "attach/survey.h"

/* The proof of detach and the totals, in words, on standard error. */
void print_session(const struct session_report *report, const char *trace);
/* "schema": "heaptap.attach/1" on standard output. */
HT_MUST_CHECK
struct ht_err *print_session_json(
	const struct session_report *report, pid_t pid, const char *trace);

/* What attach would do. */
void print_survey(const struct survey *survey);
HT_MUST_CHECK
struct ht_err *print_survey_json(const struct survey *survey);

/* As fprintf, for what may hold the target's words (format/foreign.h). All that is said here goes
 * this way, and all strings in JSON the next. */
HT_PRINTF(2, 3) void print_text(FILE *out, const char *fmt, ...);
/* NULL: no memory. */
json_t *print_string(const char *text);
/* Prints `object` (taken over; NULL: no memory) on standard output. */
HT_MUST_CHECK
struct ht_err *print_json(json_t *object);
