/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints --help in 80 columns: all commands, or one command with its options.
 */
#pragma once

#include <stdio.h>

#include "analyzer/cli/option.h"

/* Prints the usage after the command's name: "--format FORMAT [OPTION...] FILE". */
void help_print_usage(
	FILE *out, const struct option_table *table, const struct option_command *command);
/* The help of an option with its choices and its second name: "colour the output: auto or never".
 * malloc'd; NULL: no memory. */
char *help_option_text(const struct option_row *row);
/* Prints the options of a command by group, each with `put_one`; a title is printed between
 * `before` and `behind`. */
void help_print_groups(FILE *out, const struct option_table *table,
	const struct option_command *command, const char *before, const char *behind,
	void (*put_one)(FILE *out, const struct option_row *row));

void help_print_command(
	FILE *out, const struct option_table *table, const struct option_command *command);
void help_print_commands(FILE *out, const struct option_table *table);
