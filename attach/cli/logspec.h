/* SPDX-License-Identifier: Apache-2.0
 *
 * The value of --mark-log: FILE=REGEX.
 */
#pragma once

#include <limits.h>
#include <regex.h>

#include "format/err.h"

struct logspec {
	char path[PATH_MAX];
	regex_t regex; /* POSIX extended */
};

/* Splits at the first =. Free ret->regex with regfree. HT_ERR_USAGE names the fault; nothing needs
 * to be freed then. */
HT_MUST_CHECK
struct ht_err *logspec_parse(const char *text, struct logspec *ret);
/* As logspec_parse, without a result. */
HT_MUST_CHECK
struct ht_err *logspec_check(const char *text);
