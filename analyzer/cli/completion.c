/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/cli/completion.h"

static const char *word_of(enum option_kind kind)
{
	if (kind == OPTION_KIND_FILE)
		return "@file";
	return kind == OPTION_KIND_DIRECTORY ? "@directory" : "@any";
}

static void put_options(
	FILE *out, const struct option_table *table, const struct option_command *command)
{
	const char *between = "";
	fprintf(out, "_heaptap_options[%s]='", command->name);
	for (enum option_id id = 1; id < OPTION_COUNT; id++) {
		const struct option_row *row = &table->option[id];
		if (!option_is_of(table, command, id))
			continue;
		if (row->letter)
			fprintf(out, "%s-%c", between, row->letter), between = " ";
		fprintf(out, "%s--%s", between, row->name);
		between = " ";
		if (row->alias)
			fprintf(out, " --%s", row->alias);
	}
	fputs("'\n", out);
}

static void put_value(
	FILE *out, const char *command, const char *form, const struct option_row *row)
{
	fprintf(out, "_heaptap_values['%s %s']='", command, form);
	if (row->kind != OPTION_KIND_CHOICE)
		fputs(word_of(row->kind), out);
	else
		for (const char *const *choice = row->choices; *choice; choice++)
			fprintf(out, "%s%s", choice == row->choices ? "" : " ", *choice);
	fputs("'\n", out);
}

static void put_values(
	FILE *out, const struct option_table *table, const struct option_command *command)
{
	for (enum option_id id = 1; id < OPTION_COUNT; id++) {
		const struct option_row *row = &table->option[id];
		char form[64];
		if (!option_is_of(table, command, id) || row->kind == OPTION_KIND_FLAG)
			continue;
		if (row->letter) {
			snprintf(form, sizeof(form), "-%c", row->letter);
			put_value(out, command->name, form, row);
		}
		snprintf(form, sizeof(form), "--%s", row->name);
		put_value(out, command->name, form, row);
		if (row->alias) {
			snprintf(form, sizeof(form), "--%s", row->alias);
			put_value(out, command->name, form, row);
		}
	}
}

static void put_operands(FILE *out, const struct option_command *command)
{
	if (!command->operand[0].name)
		return;
	fprintf(out, "_heaptap_operands[%s]='", command->name);
	for (unsigned i = 0; i < OPTION_OPERANDS_MAX && command->operand[i].name; i++)
		fprintf(out, "%s%s", i ? " " : "",
			command->operand[i].is_trace ? "@trace"
						     : word_of(command->operand[i].kind));
	fputs("'\n", out);
}

void completion_print(FILE *out, const struct option_table *table)
{
	for (size_t i = 0; i < table->command_count; i++) {
		const struct option_command *command = &table->command[i];
		if (command->is_hidden)
			continue;
		put_options(out, table, command);
		put_values(out, table, command);
		put_operands(out, command);
	}
}
