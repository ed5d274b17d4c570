/* SPDX-License-Identifier: Apache-2.0
 *
 * A command line's query, and the files of suppressions that it names.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/cmd.h"
#include "analyzer/commands.h"
#include "tests/support/files.h"
#include "tests/support/ht_check.h"
#include "tests/support/tmpdir.h"

static struct option_values values;
static struct query query;

static struct ht_err *read_query(const char *const words[])
{
	static const struct option_command command = {
		.name = "any", .groups = OPTIONS_QUERY, .own = {OPTION_SHOW_WRAPPERS}};
	int count = 0;
	while (words[count])
		count++;
	ck_no_err(option_parse(&commands_table, &command, count, (char *const *)words, &values));
	return cmd_query(&values, &query);
}

static void end(void)
{
	query_deinit(&query);
	option_values_deinit(&values);
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

HT_TEST(nothing_is_everything)
{
	ck_no_err(read_query(WORDS(NULL)));
	ck_assert(!query_filters_blocks(&query) && !query_filters_stacks(&query));
	ck_assert(!query.from && !query.to && !query.alive_at && !query.shows_wrappers);
	end();
}

HT_TEST(each_option_has_its_place)
{
	ck_no_err(read_query(WORDS("--from", "+1s", "--to", "+2s", "--alive-at", "mark", "--thread",
		"a", "--thread", "7", "--module", "libx", "--function", "f", "--exclude", "g",
		"--min-size", "64k", "--max-size", "1M", "--min-age", "2s", "--max-age", "1m",
		"--full-stacks")));
	ck_assert_str_eq(query.from, "+1s");
	ck_assert_str_eq(query.to, "+2s");
	ck_assert_str_eq(query.alive_at, "mark");
	ck_assert_uint_eq(query.threads.count, 2);
	ck_assert_str_eq(query.threads.word[1], "7");
	ck_assert_str_eq(query.modules.word[0], "libx");
	ck_assert_str_eq(query.functions.word[0], "f");
	ck_assert_str_eq(query.excluded.word[0], "g");
	ck_assert_uint_eq(query.min_size, 64 << 10);
	ck_assert_uint_eq(query.max_size, 1 << 20);
	ck_assert_uint_eq(query.min_age_ns, 2000000000);
	ck_assert_uint_eq(query.max_age_ns, 60000000000);
	ck_assert(query.shows_wrappers);
	end();
}

static char *suppressions(const char *text)
{
	char *path = tmpdir_path("suppressions");
	files_write(path, text);
	return path;
}

HT_TEST(suppressions_are_patterns_without_comments)
{
	char *path = suppressions("# of the library\n\n  leak:libx.so \r\nleak:^init*$\n#leak:not\n"
				  "leak:a b");
	ck_no_err(read_query(WORDS("--suppressions", path, "--suppressions", path)));
	ck_assert_uint_eq(query.suppressed.count, 6);
	ck_assert_str_eq(query.suppressed.word[0], "libx.so");
	ck_assert_str_eq(query.suppressed.word[1], "^init*$");
	ck_assert_str_eq(query.suppressed.word[2], "a b");
	ck_assert_str_eq(query.suppressed.word[3], "libx.so");
	end();
	free(path);
}

static void check_refused(const char *text, const char *want)
{
	HT_FREED char *path = suppressions(text);
	struct ht_err *err = read_query(WORDS("--suppressions", path));
	ck_assert_ptr_nonnull(err);
	ck_assert_msg(strstr(err->message, want), "%s", err->message);
	ck_assert_ptr_null(strchr(err->message, '\n'));
	ht_err_free(err);
	end();
}

HT_TEST(other_lines_are_refused)
{
	check_refused("leak:a\nrace:b\n", "suppressions:2: a suppression is leak:PATTERN");
	check_refused("leak:\n", "suppressions:1: a suppression is leak:PATTERN");
	check_refused("nonsense", "suppressions:1: a suppression is leak:PATTERN");
	struct ht_err *err = read_query(WORDS("--suppressions", "/nowhere/at/all"));
	ck_assert_msg(err && strstr(err->message, "/nowhere/at/all"), "not refused");
	ht_err_free(err);
	end();
	err = read_query(WORDS("--suppressions", "/dev/null"));
	ck_assert_msg(err && strstr(err->message, "not a regular file"), "not refused");
	ht_err_free(err);
	end();
}

HT_TEST(suppressions_are_bounded)
{
	const size_t bytes = 2 << 20;
	HT_FREED char *text = calloc(1, bytes + 1);
	for (size_t i = 0; i < bytes; i++)
		text[i] = i % 80 ? '#' : '\n';
	check_refused(text, "1048576 bytes at most");
	for (size_t i = 0; i <= QUERY_WORDS_MAX; i++)
		snprintf(text + 7 * i, 8, "leak:a\n");
	check_refused(text, "256 patterns at most");
}

HT_SUITE("analyzer/cmd_query")
