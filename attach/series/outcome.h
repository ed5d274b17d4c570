/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the options of a capture from the command line, and an exit status from its report. Used by
 * attach, by run, and for the children of recorded processes.
 */
#pragma once

#include "attach/capture/session.h"
#include "attach/cli/options.h"

enum exit_status {
	EXIT_DONE = 0,
	EXIT_INTERNAL = 1,
	EXIT_USAGE = 2,
	EXIT_REFUSED = 3,
	EXIT_PERMISSION = 4,
	EXIT_TARGET_ENDED = 5,
	EXIT_INCOMPLETE_DETACH = 6,
	EXIT_INCOMPLETE_TRACE = 7,
	EXIT_NOT_A_TRACE = 9,
	EXIT_NOT_EXECUTABLE = 126,
	EXIT_NOT_FOUND = 127,
};

/* Sets the fields that the command line decides. The caller sets `output` and the functions. */
struct session_options outcome_options(const struct options *options, pid_t pid);

/* A jump page that stays, if nothing else does, changes the status only with --strict. */
enum exit_status outcome_status(const struct options *options, const struct session_report *report);
/* Returns the more important of two exit statuses. In descending order: any that is not listed
 * here, 6, 7, 1, 4, 2, 3, 5, 0. */
int outcome_worse(int status, int other);
enum exit_status outcome_error_status(const struct ht_err *err);

/* The message for a client that waits for the end (steered_end); "": none. `err`: of session_run,
 * or NULL. The text lives as long as `err` and `report`. */
const char *outcome_end_text(const struct ht_err *err, const struct options *options,
	const struct session_report *report);

/* Is the report printed? With --quiet only if the exit status is neither 0 nor 5. */
bool outcome_is_printed(const struct options *options, const struct session_report *report);
