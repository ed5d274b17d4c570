/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/cli/help.h"

#include <stdio.h>

#define HELP_COLUMN 25 /* of the text of an option */

static bool is_of(const struct option_row *row, const struct command_row *command)
{
	return row->commands & OPTION_IN(command->command);
}

static void put_row(const struct option_row *row)
{
	char letter[4] = "   ", name[32];
	if (row->letter)
		snprintf(letter, sizeof(letter), "-%c,", row->letter);
	snprintf(name, sizeof(name), "--%s%s%s", row->name,
		row->argument && option_needs_value(row) ? " " : "",
		row->argument ? row->argument : "");
	int at_column = printf("  %s %s", letter, name);
	if (at_column > HELP_COLUMN - 1)
		at_column = printf("\n") - 1;
	printf("%*s", HELP_COLUMN - at_column, "");
	for (const char *at = row->help; *at; at++) {
		putchar(*at);
		if (*at == '\n')
			printf("%*s", HELP_COLUMN, "");
	}
	putchar('\n');
}

void help_print_commands(void)
{
	printf("usage: heaptap attach -p PID [-d TIME] [-o FILE]\n"
	       "       heaptap run [-d TIME] [-o FILE] CMD [ARG...]\n"
	       "       heaptap report FILE\n"
	       "       heaptap COMMAND --help\n"
	       "heaptap -p PID is heaptap attach -p PID; heaptap FILE is heaptap report FILE.\n"
	       "\ncommands:\n");
	for (size_t i = 0; i < option_table_command_count; i++)
		if (option_table_commands[i].help)
			printf("  %-10s %s\n", option_table_commands[i].name,
				option_table_commands[i].help);
	printf("\nexit status:\n"
	       "  0  done\n"
	       "  1  internal or I/O error\n"
	       "  2  usage\n"
	       "  3  refused: the process was not touched\n"
	       "  4  no permission\n"
	       "  5  the process ended: the trace is valid\n"
	       "  6  detach incomplete: what remains is listed\n"
	       "     (attach: 0 if that is one harmless page, unless --strict)\n"
	       "  7  the trace is incomplete\n"
	       "  8  check: a threshold is exceeded\n"
	       "  9  not a readable trace\n"
	       "run: the status of the command; 1 to 4: it did not run, 126 cannot be executed,\n"
	       "127 not found\n");
}

void help_print_command(const struct command_row *command)
{
	bool has_options = false;
	printf("usage: heaptap %s %s\n\n%s\n", command->name, command->usage, command->help);
	for (size_t i = 0; i < option_table_row_count; i++) {
		if (!is_of(&option_table[i], command))
			continue;
		if (!has_options)
			printf("\noptions:\n");
		has_options = true;
		put_row(&option_table[i]);
	}
	if (command->example)
		printf("\nexample:\n  %s\n", command->example);
}

static const char *words_of(const struct option_row *row)
{
	if (row->words)
		return row->words;
	if (row->id == OPTION_PID)
		return "@pid";
	return row->id == OPTION_OUTPUT ? "@file" : "@any";
}

static void put_completion(const struct command_row *command)
{
	const char *between = "";
	printf("_heaptap_options[%s]='", command->name);
	for (size_t i = 0; i < option_table_row_count; i++) {
		const struct option_row *row = &option_table[i];
		if (!is_of(row, command))
			continue;
		if (row->letter) {
			printf("%s-%c", between, row->letter);
			between = " ";
		}
		printf("%s--%s", between, row->name);
		between = " ";
	}
	printf("'\n");
	for (size_t i = 0; i < option_table_row_count; i++) {
		const struct option_row *row = &option_table[i];
		if (!is_of(row, command) || !option_needs_value(row))
			continue;
		printf("_heaptap_values['%s --%s']='%s'\n", command->name, row->name,
			words_of(row));
		if (row->letter)
			printf("_heaptap_values['%s -%c']='%s'\n", command->name, row->letter,
				words_of(row));
	}
}

void help_print_completion(void)
{
	for (size_t i = 0; i < option_table_command_count; i++) {
		const struct command_row *command = &option_table_commands[i];
		if (command->help && command->command != COMMAND_ANALYZE)
			put_completion(command);
	}
	printf("_heaptap_operands[run]='@command'\n_heaptap_operands[help]='");
	for (size_t i = 0; i < option_table_command_count; i++)
		if (option_table_commands[i].help)
			printf("%s%s", i ? "|" : "", option_table_commands[i].name);
	printf("'\n");
}
