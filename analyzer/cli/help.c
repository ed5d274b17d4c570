/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/cli/help.h"

#include <stdlib.h>
#include <string.h>

#include "format/array.h"

#define COLUMNS	    80u
#define HELP_COLUMN 25u /* column at which the text of an option begins */

/* Title of the options of `group`; 0: of options without a group. */
static const char *title_of(unsigned group)
{
	switch (group) {
	case OPTIONS_QUERY:
		return "Which allocations";
	case OPTIONS_SHOW:
		return "Output";
	case OPTIONS_NAMES:
		return "Names and lines that the trace lacks";
	case OPTIONS_ALL:
		return "Every command";
	default:
		return "Options";
	}
}

/* The group that an option is printed under: the first of its groups, or 0. */
static unsigned group_of(const struct option_row *row)
{
	return row->groups & -row->groups;
}

void help_print_usage(
	FILE *out, const struct option_table *table, const struct option_command *command)
{
	const char *between = "";
	bool takes_options = false;
	for (enum option_id id = 1; id < OPTION_COUNT; id++)
		takes_options |= id != OPTION_HELP && option_is_of(table, command, id);
	if (command->needs)
		fputs(command->needs, out), between = " ";
	if (takes_options)
		fprintf(out, "%s[OPTION...]", between), between = " ";
	unsigned count = 0;
	for (; count < OPTION_OPERANDS_MAX && command->operand[count].name; count++) {
		bool is_needed = count < command->least;
		fprintf(out, "%s%s%s%s", between, is_needed ? "" : "[",
			command->operand[count].name, is_needed ? "" : "]");
		between = " ";
	}
	if (command->most > count)
		fputs("...", out);
}

char *help_option_text(const struct option_row *row)
{
	char *text = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);
	if (!out)
		return NULL;
	fputs(row->help, out);
	for (const char *const *choice = row->choices; choice && *choice; choice++)
		fprintf(out, "%s%s",
			choice == row->choices ? ": "
			: choice[1]	       ? ", "
					       : " or ",
			*choice);
	if (row->alias)
		fprintf(out, " (also --%s)", row->alias);
	fclose(out);
	return text;
}

/* Writes words from column `at` on; further lines begin at `indent`. */
static void put_wrapped(FILE *out, const char *text, size_t at, size_t indent)
{
	bool is_first = true;
	while (*text) {
		size_t length = strcspn(text, " ");
		if (!is_first && at + 1 + length > COLUMNS) {
			fprintf(out, "\n%*s", (int)indent, "");
			at = indent;
		} else if (!is_first) {
			fputc(' ', out);
			at++;
		}
		fwrite(text, 1, length, out);
		at += length;
		is_first = false;
		text += length;
		text += *text == ' ';
	}
	fputc('\n', out);
}

static void put_option(FILE *out, const struct option_row *row)
{
	HT_FREED char *text = help_option_text(row);
	size_t at = 0;
	if (row->letter)
		at += (size_t)fprintf(out, "  -%c, ", row->letter);
	else
		at += (size_t)fprintf(out, "      ");
	at += (size_t)fprintf(
		out, "--%s%s%s", row->name, row->value ? " " : "", row->value ? row->value : "");
	if (at + 2 > HELP_COLUMN) {
		fputc('\n', out);
		at = 0;
	}
	fprintf(out, "%*s", (int)(HELP_COLUMN - at), "");
	put_wrapped(out, text ? text : row->help, HELP_COLUMN, HELP_COLUMN);
}

static bool is_in_group(const struct option_table *table, const struct option_command *command,
	enum option_id id, unsigned group)
{
	return option_is_of(table, command, id) && group_of(&table->option[id]) == group;
}

void help_print_groups(FILE *out, const struct option_table *table,
	const struct option_command *command, const char *before, const char *behind,
	void (*put_one)(FILE *out, const struct option_row *row))
{
	for (unsigned group = 0; group < 1u << OPTION_GROUPS; group = group ? group << 1 : 1) {
		bool has_title = false;
		for (enum option_id id = 1; id < OPTION_COUNT; id++) {
			if (!is_in_group(table, command, id, group))
				continue;
			if (!has_title)
				fprintf(out, "%s%s%s", before, title_of(group), behind);
			has_title = true;
			put_one(out, &table->option[id]);
		}
	}
}

void help_print_command(
	FILE *out, const struct option_table *table, const struct option_command *command)
{
	fprintf(out, "usage: %s %s ", table->program, command->name);
	help_print_usage(out, table, command);
	fputs("\n\n", out);
	put_wrapped(out, command->description, 0, 0);
	help_print_groups(out, table, command, "\n", ":\n", put_option);
	if (command->example[0])
		fputs("\nExamples:\n", out);
	for (const char *const *example = command->example; *example; example++)
		fprintf(out, "  %s\n", *example);
}

void help_print_commands(FILE *out, const struct option_table *table)
{
	fprintf(out, "usage: %s COMMAND ...      (%s FILE is %s report FILE)\n\n", table->program,
		table->program, table->program);
	for (size_t i = 0; i < table->command_count; i++)
		if (!table->command[i].is_hidden)
			fprintf(out, "  %-10s %s\n", table->command[i].name,
				table->command[i].summary);
	fprintf(out, "\n%s COMMAND --help prints the options of a command.\n", table->program);
}
