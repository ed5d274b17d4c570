/* SPDX-License-Identifier: Apache-2.0
 *
 * The HTML page of a capture (--html): heaptap-analyze writes it when the trace is whole.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "format/err.h"

/* The page of a trace: what `pattern` (attach/cli/naming.h) gives for process `pid`; NULL: the name
 * of the trace with .html instead of .htap. Checks that it can be written: HT_ERR_SYS when
 * heaptap-analyze is missing, or when the page exists and is not to be replaced; HT_ERR_USAGE when
 * page and trace have one name. malloc'd; NULL after an error. */
HT_MUST_CHECK
struct ht_err *webpage_name(
	const char *pattern, const char *trace, pid_t pid, bool replace, char **ret);

/* What the caller does while heaptap-analyze runs. `pass` is called again and again, and waits for
 * events of the caller's, at most some ms. */
struct webpage_wait {
	void (*pass)(void *context);
	void *context;
};

/* Runs heaptap-analyze and waits for it; it prints its own errors. Returns its exit status. `wait`
 * NULL: the caller has nothing else to do. */
int webpage_write(
	const char *trace, const char *page, bool replace, const struct webpage_wait *wait);
/* The same for the first screen of the report, on standard output. */
int webpage_print_screen(const char *trace);
