/* SPDX-License-Identifier: Apache-2.0
 *
 * --help in 80 columns, and what bash completion offers, from the table of options.
 */
#pragma once

#include "attach/cli/option_table.h"

/* The commands, and what exit statuses mean; to standard output. */
void help_print_commands(void);
/* A command of heaptap and its options; of `row->command` others than COMMAND_ANALYZE. */
void help_print_command(const struct command_row *row);
/* Assignments to the arrays that attach/heaptap.bash declares; analyzer/cli/completion.h says
 * which. heaptap-analyze prints those of COMMAND_ANALYZE. */
void help_print_completion(void);
