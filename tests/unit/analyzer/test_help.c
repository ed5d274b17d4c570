/* SPDX-License-Identifier: Apache-2.0
 *
 * Help, man pages and bash completion of heaptap-analyze: each holds every option of a command and
 * every word of a choice, and none of another command.
 */
#include "analyzer/cli/help.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/cli/completion.h"
#include "analyzer/cli/man.h"
#include "analyzer/commands.h"
#include "tests/support/ht_check.h"

struct page {
	char *text;
	size_t length;
	FILE *out;
};

static void page_open(struct page *page)
{
	*page = (struct page){0};
	page->out = open_memstream(&page->text, &page->length);
	ck_assert_ptr_nonnull(page->out);
}

static char *help_of(const struct option_command *command)
{
	struct page page;
	page_open(&page);
	help_print_command(page.out, &commands_table, command);
	fclose(page.out);
	return page.text;
}

static char *man_of(const struct option_command *command)
{
	struct page page;
	page_open(&page);
	man_print(page.out, &commands_table, command, "1.2.3");
	fclose(page.out);
	return page.text;
}

/* Is `word` in `text`, with no letter, digit or hyphen behind it? */
static bool has_word(const char *text, const char *word)
{
	size_t length = strlen(word);
	for (const char *at = text; (at = strstr(at, word)); at += length)
		if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789-\\", at[length]) || !at[length])
			return true;
	return false;
}

static void check_choices(const char *text, const struct option_row *row)
{
	for (size_t i = 0; row->choices && row->choices[i]; i++)
		ck_assert_msg(has_word(text, row->choices[i]), "--%s %s: %s", row->name,
			row->choices[i], text);
}

static const struct option_command *command_at(size_t i)
{
	const struct option_command *command = &commands_table.command[i];
	return command->is_hidden ? NULL : command;
}

/* Does any row give the command an option of this name? */
static bool takes_name(const struct option_command *command, const char *name)
{
	for (enum option_id id = 1; id < OPTION_COUNT; id++)
		if (!strcmp(commands_table.option[id].name, name) &&
			option_is_of(&commands_table, command, id))
			return true;
	return false;
}

HT_TEST(help_has_every_option_and_no_other)
{
	for (size_t i = 0; i < commands_table.command_count; i++) {
		const struct option_command *command = command_at(i);
		if (!command)
			continue;
		char *text = help_of(command);
		const char *options = strstr(text, "\n\n") + 2;
		options = strstr(options, "\n\n");
		for (enum option_id id = 1; id < OPTION_COUNT; id++) {
			const struct option_row *row = &commands_table.option[id];
			char start[64];
			snprintf(start, sizeof(start), "%s--%s", row->letter ? ", " : "\n      ",
				row->name);
			bool is_in = options && has_word(options, start);
			ck_assert_msg(is_in == takes_name(command, row->name), "%s --%s: %s",
				command->name, row->name, text);
			if (!option_is_of(&commands_table, command, id))
				continue;
			check_choices(text, row);
			ck_assert(!row->alias || has_word(text, row->alias));
		}
		free(text);
	}
}

HT_TEST(help_has_eighty_columns)
{
	for (size_t i = 0; i < commands_table.command_count; i++) {
		char *text = help_of(&commands_table.command[i]);
		for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1)
			ck_assert_msg(end - line <= 80, "%.*s", (int)(end - line), line);
		free(text);
	}
}

/* A help text with all groups of options at once. */
HT_TEST(a_command_may_have_every_group)
{
	static const struct option_command all = {
		.name = "all",
		.summary = "everything",
		.description = "Everything.",
		.operand = {{"FILE", "file", OPTION_KIND_FILE, true}},
		.groups = OPTIONS_QUERY | OPTIONS_SHOW | OPTIONS_NAMES,
	};
	char *text = help_of(&all), *page = man_of(&all);
	ck_assert_ptr_nonnull(strstr(page, "\\-\\-alive\\-at"));
	for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1)
		ck_assert_msg(end - line <= 80, "%.*s", (int)(end - line), line);
	for (enum option_id id = 1; id < OPTION_COUNT; id++) {
		const struct option_row *row = &commands_table.option[id];
		ck_assert(!row->groups || has_word(text, row->name));
		for (enum option_id other = 1; row->letter && other < id; other++)
			ck_assert_msg(row->letter != commands_table.option[other].letter ||
					      !strcmp(row->name, commands_table.option[other].name),
				"-%c", row->letter);
	}
	free(text);
	free(page);
}

HT_TEST(help_begins_with_usage_and_ends_with_examples)
{
	char *text = help_of(option_find_command(&commands_table, "export"));
	const char *want = "usage: heaptap export --format FORMAT [OPTION...] FILE [NEW]\n\n";
	ck_assert_msg(strncmp(text, want, strlen(want)) == 0, "%s", text);
	ck_assert_ptr_nonnull(strstr(text, "\nExamples:\n  heaptap export my.htap"));
	free(text);
	text = help_of(option_find_command(&commands_table, "symbols"));
	ck_assert_ptr_nonnull(strstr(text, "usage: heaptap symbols [OPTION...] [FILE]\n"));
	free(text);
	text = help_of(option_find_command(&commands_table, "dump"));
	ck_assert_ptr_nonnull(strstr(text, "usage: heaptap dump FILE\n"));
	free(text);
}

HT_TEST(all_commands_are_listed)
{
	struct page page;
	page_open(&page);
	help_print_commands(page.out, &commands_table);
	fclose(page.out);
	for (size_t i = 0; i < commands_table.command_count; i++) {
		const struct option_command *command = &commands_table.command[i];
		char line[128];
		snprintf(line, sizeof(line), "  %-10s %s\n", command->name, command->summary);
		ck_assert_msg(!strstr(page.text, line) == command->is_hidden, "%s", line);
	}
	free(page.text);
}

/* Writes the option's name in roff, as "\fB\-\-NAME\fR". */
static void in_roff(const char *name, char ret[static 64])
{
	size_t at = (size_t)snprintf(ret, 64, "\\fB\\-\\-");
	for (; *name; name++)
		at += (size_t)snprintf(ret + at, 64 - at, "%s%c", *name == '-' ? "\\" : "", *name);
	snprintf(ret + at, 64 - at, "\\fR");
}

HT_TEST(a_man_page_has_every_option_and_no_other)
{
	for (size_t i = 0; i < commands_table.command_count; i++) {
		const struct option_command *command = command_at(i);
		if (!command || !man_has_page(command))
			continue;
		char *text = man_of(command);
		ck_assert_ptr_nonnull(strstr(text, ".SH NAME\nheaptap\\-"));
		ck_assert_ptr_nonnull(strstr(text, "\"heaptap 1.2.3\""));
		for (enum option_id id = 1; id < OPTION_COUNT; id++) {
			const struct option_row *row = &commands_table.option[id];
			char name[64];
			in_roff(row->name, name);
			bool is_in = strstr(text, name);
			ck_assert_msg(is_in == takes_name(command, row->name), "%s --%s: %s",
				command->name, row->name, text);
			if (option_is_of(&commands_table, command, id))
				check_choices(text, row);
		}
		free(text);
	}
	ck_assert(man_has_page(option_find_command(&commands_table, "report")));
	ck_assert(!man_has_page(option_find_command(&commands_table, "man")));
}

/* Texts with a line that roff would take for a macro, and with a backslash. */
HT_TEST(a_man_page_prints_text_as_it_is)
{
	static const struct option_row rows[OPTION_COUNT] = {
		[OPTION_JSON] = {.name = "json", .groups = OPTIONS_ALL, .help = ".so \\fR -x"},
	};
	static const struct option_command command = {.name = "c",
		.summary = "s",
		.description = "'d",
		.operand = {{"FILE", "file", OPTION_KIND_FILE, false}}};
	const struct option_table table = {rows, &command, 1, "p"};
	struct page page;
	page_open(&page);
	man_print(page.out, &table, &command, "1");
	fclose(page.out);
	ck_assert_ptr_nonnull(strstr(page.text, "\n\\&.so \\efR \\-x\n"));
	ck_assert_ptr_nonnull(strstr(page.text, "\n\\&'d\n"));
	free(page.text);
}

/* Returns the quoted string after `key`, malloc'd; NULL: there is none. */
static char *assigned(const char *text, const char *key)
{
	const char *at = strstr(text, key);
	if (!at)
		return NULL;
	at += strlen(key);
	return strndup(at, strcspn(at, "'"));
}

static void check_completion(const char *text, const struct option_command *command,
	enum option_id id, const char *options)
{
	const struct option_row *row = &commands_table.option[id];
	char name[64], key[128];
	snprintf(name, sizeof(name), "--%s", row->name);
	bool is_of = option_is_of(&commands_table, command, id);
	ck_assert_msg(has_word(options, name) == takes_name(command, row->name), "%s %s",
		command->name, name);
	if (!is_of)
		return;
	snprintf(key, sizeof(key), "_heaptap_values['%s %s']='", command->name, name);
	HT_FREED char *words = assigned(text, key);
	ck_assert_msg(!words == (row->kind == OPTION_KIND_FLAG), "%s", key);
	if (words)
		check_choices(words, row);
}

HT_TEST(completion_has_every_option_and_no_other)
{
	struct page page;
	page_open(&page);
	completion_print(page.out, &commands_table);
	fclose(page.out);
	for (size_t i = 0; i < commands_table.command_count; i++) {
		const struct option_command *command = &commands_table.command[i];
		char key[128];
		snprintf(key, sizeof(key), "_heaptap_options[%s]='", command->name);
		char *options = assigned(page.text, key);
		ck_assert_msg(!options == command->is_hidden, "%s", key);
		for (enum option_id id = 1; options && id < OPTION_COUNT; id++)
			check_completion(page.text, command, id, options);
		free(options);
	}
	ck_assert_ptr_nonnull(strstr(page.text, "_heaptap_operands[report]='@trace'\n"));
	ck_assert_ptr_nonnull(strstr(page.text, "_heaptap_values['report -n']='@any'\n"));
	ck_assert_ptr_nonnull(strstr(page.text, "_heaptap_values['export -o']='@file'\n"));
	ck_assert_ptr_nonnull(strstr(page.text, "['report --sysroot']='@directory'\n"));
	free(page.text);
}

/* Checks that rows with the same name belong to different commands, and have the same letter and
 * kind of value. */
static void check_apart(enum option_id id, enum option_id other)
{
	const struct option_row *row = &commands_table.option[id];
	const struct option_row *there = &commands_table.option[other];
	if (strcmp(row->name, there->name) != 0)
		return;
	ck_assert_int_eq(row->letter, there->letter);
	ck_assert_int_eq(row->kind, there->kind);
	for (size_t i = 0; i < commands_table.command_count; i++)
		ck_assert_msg(
			!option_is_of(&commands_table, &commands_table.command[i], id) ||
				!option_is_of(&commands_table, &commands_table.command[i], other),
			"%s --%s", commands_table.command[i].name, row->name);
}

HT_TEST(the_table_is_whole)
{
	for (enum option_id id = 1; id < OPTION_COUNT; id++) {
		const struct option_row *row = &commands_table.option[id];
		ck_assert_msg(row->name && row->help, "option %d", (int)id);
		ck_assert_msg((row->kind == OPTION_KIND_FLAG) == !row->value, "--%s", row->name);
		ck_assert_msg(
			(row->kind == OPTION_KIND_CHOICE) == !!row->choices, "--%s", row->name);
		for (enum option_id other = 1; other < id; other++)
			check_apart(id, other);
	}
	for (size_t i = 0; i < commands_table.command_count; i++) {
		const struct option_command *command = &commands_table.command[i];
		ck_assert(command->summary && command->description && command->run);
		ck_assert_uint_le(command->least, command->most);
		ck_assert(!man_has_page(command) || command->example[0]);
	}
}

HT_SUITE("analyzer/help")
