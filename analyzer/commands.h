/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands of heaptap-analyze and the options of each: one table, used for parsing, help, man
 * pages and completion.
 */
#pragma once

#include "analyzer/cli/option.h"
#include "format/err.h"

extern const struct option_table commands_table;

/* Runs the command argv[0] with the words after it, or prints its help. If argv[0] is no command
 * but the name of a file, or "-", runs report on it. HT_ERR_USAGE: argv[0] is none of these. */
HT_MUST_CHECK
struct ht_err *commands_run(int argc, char **argv);
