/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/cli/option.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/closest.h"
#include "format/quantity.h"

#define NAME_BYTES 64u /* more than the longest option name */

const struct option_command *option_find_command(const struct option_table *table, const char *name)
{
	for (size_t i = 0; i < table->command_count; i++)
		if (strcmp(table->command[i].name, name) == 0)
			return &table->command[i];
	return NULL;
}

const char *option_closest_command(const struct option_table *table, const char *name)
{
	struct closest closest = {.word = name};
	for (size_t i = 0; i < table->command_count; i++)
		if (!table->command[i].is_hidden)
			closest_try(&closest, table->command[i].name);
	return closest.match;
}

bool option_is_of(
	const struct option_table *table, const struct option_command *command, enum option_id id)
{
	if (id == OPTION_NONE)
		return false;
	if (table->option[id].groups & (command->groups | OPTIONS_ALL))
		return true;
	for (const enum option_id *own = command->own; *own != OPTION_NONE; own++)
		if (*own == id)
			return true;
	return false;
}

/* --- errors ------------------------------------------------------------------------------------
 */

static const struct option_command *find_owner(const struct option_table *table, enum option_id id)
{
	for (size_t i = 0; i < table->command_count; i++)
		if (!table->command[i].is_hidden && option_is_of(table, &table->command[i], id))
			return &table->command[i];
	return NULL;
}

/* The error for an unknown option. `word`: as typed; `name`: without dashes and value. */
static struct ht_err *unknown_option(const struct option_table *table,
	const struct option_command *command, const char *word, const char *name)
{
	struct closest closest = {.word = name};
	for (enum option_id id = 1; id < OPTION_COUNT; id++) {
		const struct option_row *row = &table->option[id];
		const struct option_command *owner;
		if (!row->name)
			continue;
		if (strcmp(name, row->name) == 0 && (owner = find_owner(table, id)))
			return ht_err_new(HT_ERR_USAGE,
				"%s: option --%s belongs to %s %s; see %s %s --help", command->name,
				name, table->program, owner->name, table->program, command->name);
		if (!option_is_of(table, command, id))
			continue;
		closest_try(&closest, row->name);
		if (row->alias)
			closest_try(&closest, row->alias);
	}
	if (closest.match)
		return ht_err_new(HT_ERR_USAGE, "%s: option %s is unknown; did you mean --%s?",
			command->name, word, closest.match);
	return ht_err_new(HT_ERR_USAGE, "%s: option %s is unknown; see %s %s --help", command->name,
		word, table->program, command->name);
}

static struct ht_err *bad_choice(
	const char *command, const struct option_row *row, const char *text)
{
	struct closest closest = {.word = text};
	char list[512] = "";
	size_t length = 0;
	for (const char *const *choice = row->choices; *choice && length < sizeof(list); choice++) {
		const char *between = choice == row->choices ? "" : choice[1] ? ", " : " or ";
		length += (size_t)snprintf(
			list + length, sizeof(list) - length, "%s%s", between, *choice);
		closest_try(&closest, *choice);
	}
	if (closest.match)
		return ht_err_new(HT_ERR_USAGE, "%s: --%s %s is unknown; did you mean %s?", command,
			row->name, text, closest.match);
	return ht_err_new(
		HT_ERR_USAGE, "%s: --%s %s is unknown; use %s", command, row->name, text, list);
}

/* --- values ------------------------------------------------------------------------------------
 */

static struct ht_err *read_number(
	const char *command, const struct option_row *row, const char *text, uint64_t *ret)
{
	uint64_t most = row->most ? row->most : UINT64_MAX;
	char *end;
	errno = 0;
	*ret = strtoull(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end || errno || *ret > most)
		return ht_err_new(HT_ERR_USAGE,
			"%s: --%s takes a number up to %" PRIu64 ", not \"%s\"", command, row->name,
			most, text);
	return NULL;
}

static struct ht_err *read_choice(
	const char *command, const struct option_row *row, const char *text, uint64_t *ret)
{
	for (size_t i = 0; row->choices[i]; i++) {
		*ret = i;
		if (strcmp(row->choices[i], text) == 0)
			return NULL;
	}
	return bad_choice(command, row, text);
}

static struct ht_err *read_value(
	const char *command, const struct option_row *row, const char *text, uint64_t *ret)
{
	const char *problem = NULL, *what = "";
	switch (row->kind) {
	case OPTION_KIND_NUMBER:
		return read_number(command, row, text, ret);
	case OPTION_KIND_CHOICE:
		return read_choice(command, row, text, ret);
	case OPTION_KIND_BYTES:
		problem = quantity_size(text, ret);
		what = "size";
		break;
	case OPTION_KIND_DURATION:
		problem = quantity_duration(text, ret);
		what = "duration";
		break;
	case OPTION_KIND_FLAG:
	case OPTION_KIND_TEXT:
	case OPTION_KIND_FILE:
	case OPTION_KIND_DIRECTORY:
		break;
	}
	return problem ? ht_err_new(HT_ERR_USAGE, "%s: --%s %s: not a %s: %s", command, row->name,
				 text, what, problem)
		       : NULL;
}

/* --- words -------------------------------------------------------------------------------------
 */

struct parse {
	const struct option_table *table;
	const struct option_command *command;
	char *const *word;
	int count, at; /* `at`: index of the current word */
	struct option_values *values;
};

/* Takes option `id`. `inside`: the value within the current word; NULL: the value, if the option
 * has one, is the next word. */
static struct ht_err *take_option(struct parse *parse, enum option_id id, const char *inside)
{
	const struct option_row *row = &parse->table->option[id];
	const char *command = parse->command->name;
	struct option_values *values = parse->values;
	struct option_value value = {.id = id, .text = inside};
	unsigned before = 0;
	if (id == OPTION_HELP) {
		values->wants_help = true;
		return NULL;
	}
	if (row->kind != OPTION_KIND_FLAG && !inside) {
		if (parse->at + 1 >= parse->count)
			return ht_err_new(HT_ERR_USAGE,
				"%s: option --%s lacks its value %s; see %s %s --help", command,
				row->name, row->value, parse->table->program, command);
		value.text = parse->word[++parse->at];
	}
	for (size_t i = 0; i < values->count; i++)
		before += values->value[i].id == id;
	if (row->is_repeatable && before == OPTION_REPEAT_MAX)
		return ht_err_new(HT_ERR_USAGE, "%s: --%s can be given %u times", command,
			row->name, OPTION_REPEAT_MAX);
	if (value.text)
		HT_TRY(read_value(command, row, value.text, &value.number));
	values->value[values->count++] = value;
	return NULL;
}

static bool has_name(const struct option_row *row, const char *name)
{
	return row->name &&
	       (strcmp(row->name, name) == 0 || (row->alias && strcmp(row->alias, name) == 0));
}

/* Takes --NAME or --NAME=VALUE. */
static struct ht_err *take_long(struct parse *parse)
{
	const char *word = parse->word[parse->at], *value = strchr(word, '=');
	char name[NAME_BYTES];
	snprintf(name, sizeof(name), "%.*s",
		(int)(value ? (size_t)(value - word) - 2 : strnlen(word + 2, NAME_BYTES)),
		word + 2);
	for (enum option_id id = 1; id < OPTION_COUNT; id++) {
		const struct option_row *row = &parse->table->option[id];
		if (!has_name(row, name) || !option_is_of(parse->table, parse->command, id))
			continue;
		if (value && row->kind == OPTION_KIND_FLAG)
			return ht_err_new(HT_ERR_USAGE, "%s: --%s takes no value, not \"%s\"",
				parse->command->name, name, value + 1);
		return take_option(parse, id, value ? value + 1 : NULL);
	}
	return unknown_option(parse->table, parse->command, word, name);
}

static enum option_id find_letter(const struct parse *parse, char letter)
{
	for (enum option_id id = 1; id < OPTION_COUNT; id++)
		if (parse->table->option[id].letter == letter &&
			option_is_of(parse->table, parse->command, id))
			return id;
	return OPTION_NONE;
}

/* Takes short options: -f, -n5, -fn5. */
static struct ht_err *take_letters(struct parse *parse)
{
	for (const char *at = parse->word[parse->at] + 1; *at; at++) {
		const char short_form[] = {'-', *at, '\0'};
		enum option_id id = find_letter(parse, *at);
		if (id == OPTION_NONE)
			return unknown_option(parse->table, parse->command, short_form, "");
		if (parse->table->option[id].kind != OPTION_KIND_FLAG)
			return take_option(parse, id, at[1] ? at + 1 : NULL);
		HT_TRY(take_option(parse, id, NULL));
	}
	return NULL;
}

static struct ht_err *take_words(struct parse *parse)
{
	struct option_values *values = parse->values;
	bool has_ended = false;
	struct ht_err *err = NULL;
	for (; parse->at < parse->count && !err && !values->wants_help; parse->at++) {
		const char *word = parse->word[parse->at];
		if (has_ended || word[0] != '-' || !word[1])
			values->operand[values->operand_count++] = word;
		else if (strcmp(word, "--") == 0)
			has_ended = true;
		else
			err = word[1] == '-' ? take_long(parse) : take_letters(parse);
	}
	return err;
}

static struct ht_err *check_operands(
	const struct option_command *command, const struct option_values *values)
{
	size_t names = 0, count = values->operand_count;
	while (names < OPTION_OPERANDS_MAX && command->operand[names].name)
		names++;
	if (count < command->least)
		return ht_err_new(HT_ERR_USAGE, "%s: %s is missing", command->name,
			command->operand[count < names ? count : names - 1].what);
	if (count <= command->most)
		return NULL;
	const char *surplus = values->operand[command->most];
	if (names == 0)
		return ht_err_new(HT_ERR_USAGE, "%s takes no operand; %s is one too many",
			command->name, surplus);
	if (command->most == 1)
		return ht_err_new(HT_ERR_USAGE, "%s takes one %s; %s is one too many",
			command->name, command->operand[0].what, surplus);
	return ht_err_new(HT_ERR_USAGE, "%s takes at most %u operands; %s is one too many",
		command->name, command->most, surplus);
}

/* Upper bound of the number of options in the words: -fq has two. */
static size_t room(int count, char *const *word)
{
	size_t ret = 1;
	for (int i = 0; i < count; i++)
		ret += word[i][0] == '-' && word[i][1] != '-' ? strlen(word[i]) : 1;
	return ret;
}

struct ht_err *option_parse(const struct option_table *table, const struct option_command *command,
	int count, char *const *word, struct option_values *ret)
{
	*ret = (struct option_values){
		.command = command,
		.value = calloc(room(count, word), sizeof(*ret->value)),
		.operand = calloc((size_t)count + 1, sizeof(*ret->operand)),
	};
	struct parse parse = {
		.table = table, .command = command, .word = word, .count = count, .values = ret};
	struct ht_err *err = ret->value && ret->operand
				     ? take_words(&parse)
				     : ht_err_new(HT_ERR_NOMEM, "no memory for the command line");
	if (!err && !ret->wants_help)
		err = check_operands(command, ret);
	if (err)
		option_values_deinit(ret);
	return err;
}

void option_values_deinit(struct option_values *values)
{
	free(values->value);
	free(values->operand);
	*values = (struct option_values){0};
}

/* --- answers -----------------------------------------------------------------------------------
 */

const struct option_value *option_next(
	const struct option_values *values, enum option_id id, const struct option_value *after)
{
	for (size_t i = after ? (size_t)(after - values->value) + 1 : 0; i < values->count; i++)
		if (values->value[i].id == id)
			return &values->value[i];
	return NULL;
}

static const struct option_value *find_last(const struct option_values *values, enum option_id id)
{
	for (size_t i = values->count; i > 0; i--)
		if (values->value[i - 1].id == id)
			return &values->value[i - 1];
	return NULL;
}

bool option_is_given(const struct option_values *values, enum option_id id)
{
	return find_last(values, id) != NULL;
}

const char *option_text(
	const struct option_values *values, enum option_id id, const char *otherwise)
{
	const struct option_value *last = find_last(values, id);
	return last ? last->text : otherwise;
}

uint64_t option_number(const struct option_values *values, enum option_id id, uint64_t otherwise)
{
	const struct option_value *last = find_last(values, id);
	return last ? last->number : otherwise;
}
