/* SPDX-License-Identifier: Apache-2.0
 *
 * The man page of a command, made from the tables of commands and options.
 */
#pragma once

#include <stdio.h>

#include "analyzer/cli/option.h"

/* Whether the command has a man page: it is not hidden, and has operands. */
bool man_has_page(const struct option_command *command);
/* Writes the page PROGRAM-COMMAND(1) in roff (man macros). */
void man_print(FILE *out, const struct option_table *table, const struct option_command *command,
	const char *version);
