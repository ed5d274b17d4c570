/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints --help in 80 columns, and the data of bash completion, from the table of options.
 */
#pragma once

#include "attach/cli/option_table.h"

/* Prints the commands and the meaning of exit statuses on standard output. */
void help_print_commands(void);
/* Prints a command of heaptap and its options. heaptap-analyze does that for COMMAND_ANALYZE. */
void help_print_command(const struct command_row *row);
/* Prints assignments to the arrays that attach/heaptap.bash declares; analyzer/cli/completion.h
 * lists them. heaptap-analyze prints those of COMMAND_ANALYZE. */
void help_print_completion(void);
