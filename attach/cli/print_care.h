/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints the results of verify, recover and cleanup: what was found, what was done, what is left,
 * what to do next. On standard output, as text or as one JSON object.
 */
#pragma once

#include "attach/undo/cleanup.h"
#include "attach/undo/recover.h"
#include "attach/undo/verify.h"

/* "schema": "heaptap.verify/1" */
HT_MUST_CHECK
struct ht_err *print_verify(const struct verify_report *report, pid_t pid, bool json);
/* "schema": "heaptap.recover/1" */
HT_MUST_CHECK
struct ht_err *print_recover(const struct recover_report *report, pid_t pid, bool json);
/* "schema": "heaptap.cleanup/1" */
HT_MUST_CHECK
struct ht_err *print_cleanup(const struct cleanup_report *report, pid_t pid, bool json);
