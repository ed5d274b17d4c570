/* SPDX-License-Identifier: Apache-2.0
 *
 * The HTML page of a capture (--html): heaptap-analyze writes it when the trace is whole.
 */
#pragma once

#include <stdbool.h>

#include "format/err.h"

/* The page of a trace: its name with .html instead of .htap. malloc'd. */
HT_MUST_CHECK
struct ht_err *webpage_name(const char *trace, char **ret);

/* Before a capture: can the page be written? HT_ERR_SYS when heaptap-analyze is missing, or when
 * `page` exists and is not to be replaced. */
HT_MUST_CHECK
struct ht_err *webpage_check(const char *page, bool replace);

/* Runs heaptap-analyze and waits for it; it prints its own errors. Returns its exit status. */
int webpage_write(const char *trace, const char *page, bool replace);
