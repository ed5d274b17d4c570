/* SPDX-License-Identifier: Apache-2.0
 *
 * --help, in 80 columns: all commands, or one with its options.
 */
#pragma once

#include <stdio.h>

#include "analyzer/cli/option.h"

/* Title of the options of `group`; 0: those in no group. */
const char *help_group_title(unsigned group);
/* The group that an option is printed under: the first of its groups, or 0. */
unsigned help_group_of(const struct option_row *row);
/* "--format FORMAT [OPTION...] FILE": what follows the name of the command. */
void help_print_usage(
	FILE *out, const struct option_table *table, const struct option_command *command);
/* ": a, b or c" behind the help of a choice; nothing behind another. */
void help_print_choices(FILE *out, const struct option_row *row);
/* The options of a command, group by group, by `put_one`; titles between `before` and `behind`. */
void help_print_groups(FILE *out, const struct option_table *table,
	const struct option_command *command, const char *before, const char *behind,
	void (*put_one)(FILE *out, const struct option_row *row));

void help_print_command(
	FILE *out, const struct option_table *table, const struct option_command *command);
void help_print_commands(FILE *out, const struct option_table *table);
