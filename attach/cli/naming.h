/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the names of traces.
 */
#pragma once

#include <sys/types.h>

#include "format/base.h"
#include "format/err.h"

/*
 * Returns the name that `pattern` gives for a trace of process `pid`: %p its number, %c its name
 * (all but letters, digits, _ and - become _), %h the host's name, %t the time (20261122T153000),
 * %n the lowest number from 1 (to 1000000) for which no such file exists, %% a percent sign.
 * `pattern` NULL: the default, in the current directory. `*ret` is malloc'd. HT_ERR_USAGE for any
 * other letter; HT_ERR_REFUSED if the process has ended.
 */
HT_MUST_CHECK
struct ht_err *naming_expand(const char *pattern, pid_t pid, char **ret);

/* The name of the `number`th trace of a series: x.htap becomes x.2.htap, or x.002.htap with 3
 * digits. malloc'd; NULL: no memory. */
char *naming_number(const char *name, unsigned number, int digits);

/* Do two traces of one process have different names if they begin at least a second apart? */
bool naming_tells_windows_apart(const char *pattern);

/* Does the pattern (NULL: the default) contain the process's number? */
bool naming_has_pid(const char *pattern);

/* HT_ERR_USAGE if the pattern has a letter that naming_expand does not know. */
HT_MUST_CHECK
struct ht_err *naming_check(const char *pattern);
