/* SPDX-License-Identifier: Apache-2.0
 *
 * Options that name a running process: -p, --name, --unit, --container.
 */
#pragma once

#include <sys/types.h>

#include "analyzer/cli/option.h"

bool cmd_process_is_given(const struct option_values *values);
/* Finds the process that the options name; one of them must be given. HT_ERR_USAGE: -p together
 * with another one; HT_ERR_REFUSED: no process, or several, which are printed. */
HT_MUST_CHECK
struct ht_err *cmd_process_find(const struct option_values *values, pid_t *ret);
