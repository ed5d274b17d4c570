/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands of heaptap-analyze and the options of each: one table, from which parsing, help, man
 * pages and completion come.
 */
#pragma once

#include "analyzer/cli/option.h"
#include "format/err.h"

extern const struct option_table commands_table;

/* Runs the command argv[0] with the words behind it, or prints its help. argv[0] may be the name of
 * a trace instead: that is report. Data goes to standard output. */
HT_MUST_CHECK
struct ht_err *commands_run(int argc, char **argv);
