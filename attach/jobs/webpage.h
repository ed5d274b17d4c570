/* SPDX-License-Identifier: Apache-2.0
 *
 * The HTML page of a capture (--html): heaptap-analyze writes it when the trace is finished.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "format/err.h"

/* Makes the name of a trace's page: the name that `pattern` (attach/cli/naming.h) gives for process
 * `pid`; `pattern` NULL: the name of the trace with .html instead of .htap. HT_ERR_SYS if
 * heaptap-analyze is missing, or if the page exists and `replace` is false; HT_ERR_USAGE if page
 * and trace have the same name; also the errors of naming_expand. `*ret` is malloc'd; NULL after an
 * error. */
HT_MUST_CHECK
struct ht_err *webpage_name(
	const char *pattern, const char *trace, pid_t pid, bool replace, char **ret);

/* Work of the caller while heaptap-analyze runs: `pass` is called in a loop, and may wait some
 * milliseconds for the caller's events. */
struct webpage_wait {
	void (*pass)(void *context);
	void *context;
};

/* Runs heaptap-analyze html and waits for its end; heaptap-analyze prints its own errors. Returns
 * its exit status; 1, after a message, if it cannot be run or a signal ended it. `wait` NULL: the
 * caller has nothing else to do. */
int webpage_write(
	const char *trace, const char *page, bool replace, const struct webpage_wait *wait);
/* As webpage_write, for the first screen of the report, which goes to standard output. */
int webpage_print_screen(const char *trace);
