/* SPDX-License-Identifier: Apache-2.0
 *
 * The name of a trace.
 */
#pragma once

#include <sys/types.h>

#include "format/base.h"
#include "format/err.h"

/*
 * The name that `pattern` gives for a trace of process `pid`: %p its number, %c its name (of which
 * all but letters, digits, _ and - become _), %h the host's, %t the time (20261122T153000), %n the
 * lowest number from 1 with which no such file exists, %% a percent sign. NULL: the default, in the
 * current directory. malloc'd; HT_ERR_USAGE for any other letter.
 */
HT_MUST_CHECK
struct ht_err *naming_expand(const char *pattern, pid_t pid, char **ret);

/* The `number`th trace by one name: x.htap becomes x.2.htap, or x.002.htap with 3 digits. malloc'd;
 * NULL: no memory. */
char *naming_number(const char *name, unsigned number, int digits);

/* Do two traces of one process get different names, if a second passes between them? */
bool naming_tells_windows_apart(const char *pattern);

/* Does the name have the process's number in it? */
bool naming_has_pid(const char *pattern);

/* Only the letters: without a process to name. */
HT_MUST_CHECK
struct ht_err *naming_check(const char *pattern);
