/* SPDX-License-Identifier: Apache-2.0
 *
 * FILE=REGEX of --mark-log.
 */
#pragma once

#include <limits.h>
#include <regex.h>

#include "format/err.h"

struct logspec {
	char path[PATH_MAX];
	regex_t regex; /* POSIX extended */
};

/* Splits at the first =. HT_ERR_USAGE names what is wrong; nothing is to be freed then. */
HT_MUST_CHECK
struct ht_err *logspec_parse(const char *text, struct logspec *ret);
void logspec_deinit(struct logspec *spec);
/* Only checks. */
HT_MUST_CHECK
struct ht_err *logspec_check(const char *text);
