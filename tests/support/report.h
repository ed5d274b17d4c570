/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the programs, and reads the JSON that they print.
 */
#pragma once

#include <jansson.h>

#include "tests/support/victim.h"

/* `heaptap report --json --limit 0 TRACE`, parsed; each stack has its frames themselves instead of
 * their numbers. Fails the test unless the exit status is 0, or 7 for an incomplete trace. */
json_t *report_load(const char *trace);
/* Like report_load for a running capture; NULL: its trace holds no record yet. */
json_t *report_load_begun(const char *trace);
/* `heaptap COMMAND -p PID --json`, parsed; it must end with `status` and print nothing else. */
json_t *report_run(const char *command, pid_t pid, int status);
/* The value `what` in a victim's answer to "count". */
uint64_t report_count(struct victim *victim, const char *what);
/* Parses text that is one JSON value; fails the test when it is not. */
json_t *report_parse(const char *text);
/* The value at a path such as "totals.allocations"; fails the test when there is none. */
json_t *report_at(const json_t *root, const char *path);
uint64_t report_u64(const json_t *root, const char *path);
const char *report_text(const json_t *root, const char *path);
/* Fails the test unless heaptrack_print's output `text` has `label` followed by `expected`, rounded
 * to the digits and decimal unit that it prints ("1.11M"). */
void report_check_amount(const char *text, const char *label, uint64_t expected);
