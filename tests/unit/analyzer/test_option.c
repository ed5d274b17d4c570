/* SPDX-License-Identifier: Apache-2.0
 *
 * The parser of the command line, with a table of its own: kinds of values, groups, operands, and
 * the words for each mistake.
 */
#include "analyzer/cli/option.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/ht_check.h"

static const char *const metrics[] = {"peak", "calls", NULL};

static const struct option_row rows[OPTION_COUNT] = {
	[OPTION_MIN_SIZE] = {.name = "min-size",
		.kind = OPTION_KIND_BYTES,
		.value = "BYTES",
		.groups = OPTIONS_QUERY,
		.help = "a size"},
	[OPTION_MIN_AGE] = {.name = "min-age",
		.kind = OPTION_KIND_DURATION,
		.value = "TIME",
		.groups = OPTIONS_QUERY,
		.help = "an age"},
	[OPTION_FROM] = {.name = "from",
		.kind = OPTION_KIND_TEXT,
		.value = "TIME",
		.groups = OPTIONS_QUERY,
		.help = "a start"},
	[OPTION_METRIC] = {.name = "metric",
		.kind = OPTION_KIND_CHOICE,
		.value = "METRIC",
		.choices = metrics,
		.groups = OPTIONS_QUERY,
		.help = "a figure"},
	[OPTION_LIMIT] = {.name = "limit",
		.letter = 'n',
		.kind = OPTION_KIND_NUMBER,
		.value = "N",
		.most = 100,
		.groups = OPTIONS_QUERY,
		.help = "a count"},
	[OPTION_SHOW_WRAPPERS] = {.name = "show-wrappers",
		.alias = "full-stacks",
		.letter = 'w',
		.groups = OPTIONS_SHOW,
		.help = "a flag"},
	[OPTION_JSON] = {.name = "json",
		.letter = 'j',
		.groups = OPTIONS_SHOW,
		.help = "another flag"},
	[OPTION_DEBUG_DIR] = {.name = "debug-dir",
		.kind = OPTION_KIND_DIRECTORY,
		.value = "DIR",
		.is_repeatable = true,
		.groups = OPTIONS_NAMES,
		.help = "a directory"},
	[OPTION_FORMAT] = {.name = "format",
		.kind = OPTION_KIND_TEXT,
		.value = "FORMAT",
		.help = "in no group"},
	[OPTION_HELP] = {.name = "help", .letter = 'h', .groups = OPTIONS_ALL, .help = "help"},
};

#define TRACE                                                                                      \
	{                                                                                          \
		"FILE", "trace file", OPTION_KIND_FILE, true                                       \
	}

static const struct option_command commands[] = {
	{.name = "show",
		.operand = {TRACE},
		.least = 1,
		.most = 1,
		.groups = OPTIONS_QUERY | OPTIONS_SHOW | OPTIONS_NAMES},
	{.name = "write", .operand = {TRACE}, .most = 1, .own = {OPTION_FORMAT, OPTION_JSON}},
	{.name = "compare",
		.operand = {{"OLD", "older trace", OPTION_KIND_FILE, true},
			{"NEW", "newer trace", OPTION_KIND_FILE, true}},
		.least = 2,
		.most = 9},
	{.name = "plain"},
	{.name = "shoe", .is_hidden = true},
};

static const struct option_table table = {
	.option = rows,
	.command = commands,
	.command_count = HT_ARRAY_SIZE(commands),
	.program = "heaptap",
};

/* The arguments of a command line, the command's name first. */
static struct ht_err *parse(const char *line, struct option_values *ret)
{
	static char copy[1024];
	static char *word[128];
	int count = 0;
	ck_assert_uint_lt(strlen(line), sizeof(copy));
	snprintf(copy, sizeof(copy), "%s", line);
	char *rest = copy;
	for (char *at; (at = strsep(&rest, " "));)
		word[count++] = at;
	const struct option_command *command = option_find_command(&table, word[0]);
	ck_assert_ptr_nonnull(command);
	return option_parse(&table, command, count - 1, word + 1, ret);
}

HT_TEST(each_kind_of_value)
{
	struct option_values values;
	ck_no_err(parse("show --min-size 64k --min-age=1.5h --from +10s a.htap --metric calls -n 7",
		&values));
	ck_assert_uint_eq(option_number(&values, OPTION_MIN_SIZE, 0), 64 << 10);
	ck_assert_uint_eq(option_number(&values, OPTION_MIN_AGE, 0), 5400000000000);
	ck_assert_str_eq(option_text(&values, OPTION_FROM, ""), "+10s");
	ck_assert_uint_eq(option_number(&values, OPTION_METRIC, 9), 1);
	ck_assert_uint_eq(option_number(&values, OPTION_LIMIT, 0), 7);
	ck_assert(!option_is_given(&values, OPTION_JSON));
	ck_assert_uint_eq(values.operand_count, 1);
	ck_assert_str_eq(values.operand[0], "a.htap");
	ck_assert_str_eq(values.command->name, "show");
	option_values_deinit(&values);
}

HT_TEST(absent_options_keep_the_callers_value)
{
	struct option_values values;
	ck_no_err(parse("show -", &values));
	ck_assert_uint_eq(option_number(&values, OPTION_LIMIT, 20), 20);
	ck_assert_ptr_null(option_text(&values, OPTION_FROM, NULL));
	ck_assert_ptr_null(option_next(&values, OPTION_DEBUG_DIR, NULL));
	ck_assert_str_eq(values.operand[0], "-");
	option_values_deinit(&values);
}

HT_TEST(letters_and_second_names)
{
	static const char *const lines[] = {"show -wjn5 x", "show -w -j -n 5 x",
		"show --full-stacks --json --limit=5 x", "show x -jw --limit 5"};
	for (size_t i = 0; i < HT_ARRAY_SIZE(lines); i++) {
		struct option_values values;
		ck_no_err(parse(lines[i], &values));
		ck_assert(option_is_given(&values, OPTION_SHOW_WRAPPERS));
		ck_assert(option_is_given(&values, OPTION_JSON));
		ck_assert_uint_eq(option_number(&values, OPTION_LIMIT, 0), 5);
		ck_assert_str_eq(values.operand[0], "x");
		option_values_deinit(&values);
	}
}

HT_TEST(the_last_one_counts_unless_it_is_repeatable)
{
	struct option_values values;
	ck_no_err(parse("show -n 1 --debug-dir a -n 2 --debug-dir b x", &values));
	ck_assert_uint_eq(option_number(&values, OPTION_LIMIT, 0), 2);
	const struct option_value *dir = option_next(&values, OPTION_DEBUG_DIR, NULL);
	ck_assert_str_eq(dir->text, "a");
	dir = option_next(&values, OPTION_DEBUG_DIR, dir);
	ck_assert_str_eq(dir->text, "b");
	ck_assert_ptr_null(option_next(&values, OPTION_DEBUG_DIR, dir));
	option_values_deinit(&values);
}

HT_TEST(sixteen_times_and_no_more)
{
	char line[512] = "show x";
	struct option_values values;
	for (unsigned i = 0; i < OPTION_REPEAT_MAX; i++)
		strncat(line, " --debug-dir d", sizeof(line) - strlen(line) - 1);
	ck_no_err(parse(line, &values));
	ck_assert_uint_eq(values.count, OPTION_REPEAT_MAX);
	option_values_deinit(&values);
	strncat(line, " --debug-dir d", sizeof(line) - strlen(line) - 1);
	ck_err_says(parse(line, &values), HT_ERR_USAGE, "show: --debug-dir can be given 16 times");
}

HT_TEST(two_dashes_end_the_options)
{
	struct option_values values;
	ck_no_err(parse("show --json -- --json", &values));
	ck_assert_uint_eq(values.count, 1);
	ck_assert_str_eq(values.operand[0], "--json");
	option_values_deinit(&values);
}

HT_TEST(help_needs_no_operand)
{
	static const char *const lines[] = {"show --help", "show -h", "show --json -h --no-such"};
	for (size_t i = 0; i < HT_ARRAY_SIZE(lines); i++) {
		struct option_values values;
		ck_no_err(parse(lines[i], &values));
		ck_assert(values.wants_help);
		option_values_deinit(&values);
	}
	struct option_values values;
	ck_no_err(parse("show --from --help x", &values));
	ck_assert(!values.wants_help);
	option_values_deinit(&values);
}

HT_TEST(a_command_takes_its_groups_and_its_own)
{
	const struct option_command *show = &commands[0], *write = &commands[1];
	ck_assert(option_is_of(&table, show, OPTION_LIMIT));
	ck_assert(!option_is_of(&table, show, OPTION_FORMAT));
	ck_assert(option_is_of(&table, write, OPTION_FORMAT));
	ck_assert(option_is_of(&table, write, OPTION_JSON));
	ck_assert(!option_is_of(&table, write, OPTION_SHOW_WRAPPERS));
	ck_assert(option_is_of(&table, write, OPTION_HELP));
	ck_assert(!option_is_of(&table, show, OPTION_NONE));
}

HT_TEST(operands_are_counted)
{
	struct option_values values;
	ck_no_err(parse("compare 1 2 3 4 5 6 7 8 9", &values));
	ck_assert_uint_eq(values.operand_count, 9);
	option_values_deinit(&values);
	ck_no_err(parse("write", &values));
	ck_assert_uint_eq(values.operand_count, 0);
	option_values_deinit(&values);
}

HT_TEST(each_mistake_has_its_words)
{
	static const struct {
		const char *line, *says;
	} wrong[] = {
		{"show", "show: trace file is missing"},
		{"show a b", "show takes one trace file; b is one too many"},
		{"compare a", "compare: newer trace is missing"},
		{"compare 1 2 3 4 5 6 7 8 9 10", "at most 9 operands; 10 is one too many"},
		{"plain x", "plain takes no operand; x is one too many"},
		{"show --jsno a", "show: option --jsno is unknown; did you mean --json?"},
		{"show --full-stack a",
			"option --full-stack is unknown; did you mean --full-stacks?"},
		{"show --debug=x a",
			"show: option --debug=x is unknown; did you mean --debug-dir?"},
		{"show --love a", "show: option --love is unknown; see heaptap show --help"},
		{"show --fo a", "option --fo is unknown; see"},
		{"show -z a", "show: option -z is unknown; see heaptap show --help"},
		{"show -jz a", "option -z is unknown"},
		{"show --format x a", "option --format belongs to heaptap write; see heaptap show"},
		{"write --metric calls a", "option --metric belongs to heaptap show"},
		{"show -- a b", "b is one too many"},
		{"show a --limit",
			"show: option --limit lacks its value N; see heaptap show --help"},
		{"show a -n", "option --limit lacks its value N"},
		{"show --json=1 a", "show: --json takes no value, not \"1\""},
		{"show -n x a", "show: --limit takes a number up to 100, not \"x\""},
		{"show -n 101 a", "--limit takes a number up to 100, not \"101\""},
		{"show -n -1 a", "--limit takes a number up to 100, not \"-1\""},
		{"show -n 99999999999999999999 a", "--limit takes a number"},
		{"show --limit= a", "--limit takes a number up to 100, not \"\""},
		{"show --min-size 5Q a", "show: --min-size 5Q: not a size: its unit is not K"},
		{"show --min-age 0s a", "show: --min-age 0s: not a duration: it is zero"},
		{"show --metric love a", "show: --metric love is unknown; use peak or calls"},
		{"show --metric cals a", "show: --metric cals is unknown; did you mean calls?"},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(wrong); i++) {
		struct option_values values;
		ck_err_says(parse(wrong[i].line, &values), HT_ERR_USAGE, wrong[i].says);
		ck_assert_ptr_null(values.value);
	}
}

HT_TEST(mistyped_commands)
{
	ck_assert_str_eq(option_closest_command(&table, "shwo"), "show");
	ck_assert_ptr_null(option_closest_command(&table, "xyzzy"));
	ck_assert_str_eq(option_closest_command(&table, "shoe"), "show");
}

HT_SUITE("analyzer/option")
