/* SPDX-License-Identifier: Apache-2.0
 *
 * From the address of a request to the words of a command: every option that chooses what counts,
 * and none that names a file of the server's machine.
 */
#include "analyzer/serve/route.h"

#include <stdio.h>
#include <string.h>

#include "analyzer/commands.h"
#include "tests/support/ht_check.h"

static const char *const paths[] = {"-first.htap", "second.htap", "third.htap"};

static struct ht_err *words_of(const char *target, struct route_words *ret)
{
	struct request request;
	const char *rest;
	*ret = (struct route_words){0};
	ck_no_err(request_parse(target, &request));
	const struct route *route = route_find(request.path, &rest);
	ck_assert_msg(route && route->command, "%s", target);
	struct ht_err *err = route_words(
		&commands_table, route, rest, &request, paths, HT_ARRAY_SIZE(paths), ret);
	request_deinit(&request);
	return err;
}

static void check(const char *target, const char *expected)
{
	struct route_words words;
	char text[1000] = "";
	size_t length = 0;
	ck_no_err(words_of(target, &words));
	for (int i = 0; i < words.count; i++)
		length += (size_t)snprintf(
			text + length, sizeof(text) - length, "%s%s", i ? " " : "", words.word[i]);
	ck_assert_str_eq(text, expected);
	route_words_deinit(&words);
}

static void check_refused(const char *command, const char *name)
{
	struct route_words words;
	char target[200];
	snprintf(target, sizeof(target), "/api/v1/%s?name=x&%s=1", command, name);
	struct ht_err *err = words_of(target, &words);
	ck_assert_msg(err && err->code == HT_ERR_USAGE, "%s is taken", target);
	ht_err_free(err);
	route_words_deinit(&words);
}

HT_TEST(parameters_are_options)
{
	check("/api/v1/summary?token=x&trace=0", "--json -- -first.htap");
	check("/api/v1/timeline?from=+10s&thread=a&thread=b&show-wrappers",
		"--json --from=+10s --thread=a --thread=b --show-wrappers -- -first.htap");
	check("/api/v1/lifetimes", "--json --by=lifetime -- -first.htap");
	check("/api/v1/callers?name=a%20b&full-stacks", "--json --full-stacks -- -first.htap a b");
	check("/api/v1/diff?metric=calls", "--json --metric=calls -- -first.htap second.htap");
	check("/api/v1/export/pprof?min-size=64k", "--format=pprof --min-size=64k -- -first.htap");
	/* The option parser, not the route, refuses unknown options and bad values. */
	check("/api/v1/tree?nothing=1", "--json --nothing=1 -- -first.htap");
	check("/api/v1/page", "-- -first.htap");
}

HT_TEST(numbers_choose_traces)
{
	check("/api/v1/tree?trace=2", "--json -- third.htap");
	check("/api/v1/diff?base=2&trace=0", "--json -- third.htap -first.htap");
	check("/api/v1/trend?limit=9", "--json --limit=9 -- -first.htap second.htap third.htap");
	check("/api/v1/page?trace=1&base=2", "--diff=third.htap -- second.htap");
	check("/api/v1/export/difffolded?trace=1&base=0",
		"--format=difffolded -- -first.htap second.htap");
	/* Only a number of the list is a trace. */
	check_refused("tree", "trace=3&x");
	check_refused("page", "base=/etc/passwd&x");
	check_refused("page", "diff");
	check_refused("page", "embed-source");
	/* No parameter of this route: the parser refuses it. */
	check("/api/v1/tree?base=1", "--json --base=1 -- -first.htap");
	check("/api/v1/trend?trace=1", "--json --trace=1 -- -first.htap second.htap third.htap");
}

HT_TEST(no_option_names_a_file)
{
	static const char *const command[] = {"report", "tree", "callers", "diff", "page"};
	static const char *const name[] = {"sysroot", "debug-dir", "perf-map"};
	for (size_t i = 0; i < HT_ARRAY_SIZE(command); i++)
		for (size_t k = 0; k < HT_ARRAY_SIZE(name); k++)
			check_refused(command[i], name[k]);
	check_refused("report", "suppressions");
	check_refused("export/csv", "output");
	check_refused("export/csv", "force");
	check_refused("export/csv", "format");
	check_refused("page", "output");
	check_refused("report", "json");
	check_refused("report", "csv");
	check_refused("report", "help");
}

HT_TEST(names_cannot_hide_options)
{
	static const char *const name[] = {"", "-", "from%3Dx", "FROM", "a%20b", "n1"};
	for (size_t i = 0; i < HT_ARRAY_SIZE(name); i++) {
		struct route_words words;
		char target[100];
		snprintf(target, sizeof(target), "/api/v1/report?%s=--suppressions=/x", name[i]);
		struct ht_err *err = words_of(target, &words);
		/* "---=..." is an unknown option to the parser. */
		ck_assert_msg(err || strcmp(name[i], "-") == 0, "%s is taken", target);
		ht_err_free(err);
		route_words_deinit(&words);
	}
}

HT_TEST(only_these_paths_lead_somewhere)
{
	static const char *const none[] = {"", "/x", "/api", "/api/v1", "/api/v1/",
		"/api/v1/reports", "/api/v1/report/", "/api/v1/report/x", "/api/v1/export",
		"/api/v1/export/", "/api/v2/report", "//", "/api/v1/../v1/report"};
	const char *rest;
	for (size_t i = 0; i < HT_ARRAY_SIZE(none); i++)
		ck_assert_msg(!route_find(none[i], &rest), "%s", none[i]);
	ck_assert_ptr_eq(route_find("/", &rest), &route_table[0]);
	ck_assert_ptr_nonnull(route_find("/api/v1/export/a/b", &rest));
	ck_assert_str_eq(rest, "a/b");
	struct route_words words;
	ck_assert_ptr_nonnull(route_find("/api/v1/callers", &rest));
	struct request request;
	ck_no_err(request_parse("/api/v1/callers", &request));
	struct ht_err *err = route_words(
		&commands_table, route_find(request.path, &rest), rest, &request, paths, 1, &words);
	ck_assert_ptr_nonnull(err);
	ck_assert_str_eq(err->message, "callers: parameter name is missing");
	ht_err_free(err);
	route_words_deinit(&words);
	request_deinit(&request);
}

HT_TEST(every_route_has_its_command)
{
	for (size_t i = 0; i < route_count; i++)
		ck_assert_msg(!route_table[i].command ||
				      option_find_command(&commands_table, route_table[i].command),
			"%s", route_table[i].path);
	ck_assert_uint_eq(route_count, 22);
}

HT_SUITE("unit/analyzer/route")
