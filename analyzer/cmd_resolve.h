/* SPDX-License-Identifier: Apache-2.0
 *
 * The two forms of the command symbols that users run.
 */
#pragma once

#include "analyzer/cmd.h"

/* Prints which names the trace has. */
HT_MUST_CHECK
struct ht_err *cmd_symbols_list(const struct option_values *values);
/* Writes a copy of the trace with the names that are found now. */
HT_MUST_CHECK
struct ht_err *cmd_symbols_resolve(const struct option_values *values);
