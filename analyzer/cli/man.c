/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/cli/man.h"

#include <ctype.h>
#include <stdlib.h>

#include "analyzer/cli/help.h"
#include "format/array.h"

bool man_has_page(const struct option_command *command)
{
	return !command->is_hidden && command->operand[0].name;
}

/* Escapes text for roff: a hyphen that users type must be \-, and a line must not begin with a dot
 * or quote, which would be a macro. */
static void put(FILE *out, const char *text)
{
	if (*text == '.' || *text == '\'')
		fputs("\\&", out);
	for (; *text; text++) {
		if (*text == '-')
			fputs("\\-", out);
		else if (*text == '\\')
			fputs("\\e", out);
		else
			fputc(*text, out);
	}
}

static void put_option(FILE *out, const struct option_row *row)
{
	fputs(".TP\n", out);
	if (row->letter)
		fprintf(out, "\\fB\\-%c\\fR, ", row->letter);
	fputs("\\fB\\-\\-", out);
	put(out, row->name);
	fputs("\\fR", out);
	if (row->value)
		fprintf(out, " \\fI%s\\fR", row->value);
	fputc('\n', out);
	HT_FREED char *text = help_option_text(row);
	put(out, text ? text : row->help);
	fputc('\n', out);
}

static void put_usage(
	FILE *out, const struct option_table *table, const struct option_command *command)
{
	HT_FREED char *usage = NULL;
	size_t length = 0;
	fprintf(out, ".SH SYNOPSIS\n.B %s %s\n", table->program, command->name);
	FILE *memory = open_memstream(&usage, &length);
	if (memory) {
		help_print_usage(memory, table, command);
		fclose(memory);
		put(out, usage);
	}
	fputc('\n', out);
}

static void put_title(FILE *out, const struct option_table *table,
	const struct option_command *command, const char *version)
{
	char name[64];
	size_t i = 0;
	snprintf(name, sizeof(name), "%s-%s", table->program, command->name);
	fputs(".TH \"", out);
	for (; name[i]; i++)
		fputc(toupper((unsigned char)name[i]), out);
	fprintf(out, "\" 1 \"\" \"%s %s\" \"%s\"\n.SH NAME\n", table->program, version,
		table->program);
	put(out, name);
	fputs(" \\- ", out);
	put(out, command->summary);
	fputc('\n', out);
}

void man_print(FILE *out, const struct option_table *table, const struct option_command *command,
	const char *version)
{
	fputs(".\\\" SPDX-License-Identifier: Apache-2.0\n", out);
	put_title(out, table, command, version);
	put_usage(out, table, command);
	fputs(".SH DESCRIPTION\n", out);
	put(out, command->description);
	fputs("\n.SH OPTIONS\n", out);
	help_print_groups(out, table, command, ".SS ", "\n", put_option);
	fputs(".SH EXAMPLES\n.nf\n", out);
	for (const char *const *example = command->example; *example; example++) {
		put(out, *example);
		fputc('\n', out);
	}
	fprintf(out,
		".fi\n.SH SEE ALSO\n.BR %s (1),\n.BR %s\\-analyze (1),\nwhich explains words, "
		"formats and exit statuses\n",
		table->program, table->program);
}
