/* SPDX-License-Identifier: Apache-2.0
 *
 * The help lists what the command line takes, in 80 columns.
 */
#include "attach/cli/help.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/ht_check.h"
#include "tests/support/tmpdir.h"
#include "tests/unit/attach/words.h"

/* Returns a value that the option takes; "" if it needs none. */
static const char *value_of(const struct option_row *row)
{
	if (!option_needs_value(row))
		return "";
	if (row->words)
		return row->id == OPTION_HOOK	   ? "auto"
		       : row->id == OPTION_ON_FULL ? "stop"
						   : row->words;
	return row->id == OPTION_ALLOC_FN    ? "f=free"
	       : row->id == OPTION_MAX_SIZE  ? "1M"
	       : row->id == OPTION_CONTAINER ? "7777"
	       : row->id == OPTION_PUSH	     ? "clickhouse+http://localhost:8123"
	       : row->id == OPTION_MARK_LOG  ? "app.log=x"
					     : "7";
}

/* Returns other options without which this option is refused; "" if there are none. */
static const char *needs_of(const struct option_row *row, enum command command)
{
	if (row->id == OPTION_SETTLE)
		return " -d 1s";
	if (command != COMMAND_ATTACH)
		return "";
	return row->id == OPTION_EVERY				   ? " -d 1s"
	       : row->id == OPTION_COUNT || row->id == OPTION_KEEP ? " -d 1s --every 9s"
								   : "";
}

/* Prints the help of a command into a file; its text is malloc'd. */
static char *help_text(const struct command_row *row)
{
	char *path = tmpdir_path("help"), *text = NULL;
	size_t room = 0;
	ck_assert_ptr_nonnull(freopen(path, "we", stdout));
	if (row)
		help_print_command(row);
	else
		help_print_commands();
	fflush(stdout);
	FILE *help = fopen(path, "re");
	ck_assert_ptr_nonnull(help);
	ck_assert_int_gt(getdelim(&text, &room, '\0', help), 0);
	fclose(help);
	free(path);
	for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1)
		ck_assert_msg(end - line <= 80, "%.*s", (int)(end - line), line);
	return text;
}

/* These options name the target instead of -p. */
static bool names_process(const struct option_row *row)
{
	return row->id == OPTION_NAME || row->id == OPTION_UNIT || row->id == OPTION_CONTAINER ||
	       row->id == OPTION_WAIT_FOR;
}

/* Returns true if the help lists `option`, and not only as the beginning of a longer name. */
static bool is_listed(const char *help, const char *option)
{
	const char *at = strstr(help, option);
	for (; at; at = strstr(at + 1, option))
		if (at[strlen(option)] == ' ' || at[strlen(option)] == '\n')
			return true;
	return false;
}

/* The help of a command lists those options that the command takes. */
HT_TEST(help_lists_what_parses)
{
	unsigned seen = 0;
	for (size_t i = 0; i < option_table_command_count; i++) {
		const struct command_row *command = &option_table_commands[i];
		if (!(OPTION_IN(command->command) & OPTION_IN_ALL))
			continue;
		char *text = help_text(command);
		bool is_run = command->command == COMMAND_RUN;
		bool has_pid = !is_run && command->command != COMMAND_LIST;
		const char *word = is_run			      ? " true"
				   : command->command == COMMAND_MARK ? " text"
								      : "";
		for (size_t j = 0; j < option_table_row_count; j++) {
			const struct option_row *row = &option_table[j];
			char words[128], listed[64];
			struct options options = {0};
			snprintf(words, sizeof(words), "%s%s --%s %s%s%s", command->name,
				has_pid && !names_process(row) ? " -p 7" : "", row->name,
				value_of(row), needs_of(row, command->command), word);
			snprintf(listed, sizeof(listed), " --%s%s%s", row->name,
				option_needs_value(row) ? " " : "",
				row->argument ? row->argument : "");
			struct ht_err *err = parse(words, &options);
			ck_assert_msg(!err == is_listed(text, listed), "%s: %s", words,
				err ? err->message : "taken, but not listed");
			seen += !err;
			ht_err_free(err);
			options_deinit(&options);
		}
		free(text);
	}
	ck_assert_uint_gt(seen, 50);
}

HT_TEST(help_of_one_command_or_all)
{
	static const struct {
		const char *words, *help_of;
	} table[] = {
		{"--help", NULL},
		{"-h", NULL},
		{"help", NULL},
		{"help run", "run"},
		{"help export", "export"},
		{"run --help", "run"},
		{"-p 7 --help", "attach"},
		{"doctor -h", "doctor"},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(table); i++) {
		struct options options;
		ck_no_err(parse(table[i].words, &options));
		ck_assert_int_eq(options.command, COMMAND_HELP);
		ck_assert_pstr_eq(options.help_of, table[i].help_of);
		options_deinit(&options);
	}
	HT_FREED char *text = help_text(NULL);
	for (size_t i = 0; i < option_table_command_count; i++) {
		char line[32];
		snprintf(line, sizeof(line), "\n  %-10s ", option_table_commands[i].name);
		ck_assert_msg(!strstr(text, line) == !option_table_commands[i].help, "%s", line);
	}
}

HT_SUITE("attach/cli/help")
