/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the options of a capture from the command line, and an exit status from its report: the
 * same for attach, for a command, and for its children.
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

/* The output is the caller's to name. */
struct session_options outcome_options(const struct options *options, pid_t pid);

/* EXIT_DONE also for a capture that has left only the jump page, unless --strict. */
enum exit_status outcome_status(const struct options *options, const struct session_report *report);
/* The more important of two exit statuses; in descending order 6, 7, 1, 4, 2, 3, 5, 0. */
int outcome_worse(int status, int other);
enum exit_status outcome_error_status(const struct ht_err *err);

/* The answer to a client that waited for the end (steered.h); "": none. `err`: of session_run. */
const char *outcome_end_text(const struct ht_err *err, const struct options *options,
	const struct session_report *report);

/* Is the report printed? With --quiet only that of a failure. */
bool outcome_is_printed(const struct options *options, const struct session_report *report);
