/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/faces.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/ht_check.h"
#include "tests/support/report.h"
#include "tests/support/run.h"
#include "tests/support/tmpdir.h"

#define RUN_MS 60000

char *faces_run(const char *const words[])
{
	const char *argv[16] = {run_built("heaptap")};
	for (size_t i = 0; words[i]; i++)
		argv[i + 1] = words[i];
	char *out, *err;
	const int status = run_program(argv, RUN_MS, &out, &err);
	ck_assert_msg(status == 0, "%s ended with %d: %.1000s", words[0], status, err);
	free(err);
	return out;
}

json_t *faces_load(const char *const words[])
{
	char *out = faces_run(words);
	json_t *json = report_parse(out);
	free(out);
	return json;
}

static int64_t integer(const json_t *object, const char *name)
{
	const json_t *value = json_object_get(object, name);
	ck_assert_msg(json_is_integer(value), "no integer %s", name);
	return json_integer_value(value);
}

static int64_t sum_of(const json_t *object, const char *array, const char *member)
{
	int64_t sum = 0;
	size_t index;
	json_t *element;
	json_array_foreach(json_object_get(object, array), index, element) sum +=
		integer(element, member);
	return sum;
}

/* Each node's total must be the sum of its own value and its children's totals. */
static void check_nodes(const json_t *tree)
{
	const json_t *nodes = json_object_get(tree, "nodes");
	const size_t count = json_array_size(nodes);
	int64_t *rest = calloc(count + 1, sizeof(*rest));
	size_t index;
	json_t *node;
	ck_assert_ptr_nonnull(rest);
	json_array_foreach(nodes, index, node)
	{
		rest[index] += integer(node, "total") - integer(node, "own");
		if (index)
			rest[integer(node, "parent")] -= integer(node, "total");
	}
	for (size_t i = 0; i < count; i++)
		ck_assert_msg(rest[i] == 0, "node %zu lacks %ld", i, (long)rest[i]);
	free(rest);
}

static json_t *check_tree(
	const char *trace, const char *metric, const char *direction, int64_t want)
{
	json_t *tree = faces_load(
		(const char *[]){"tree", trace, "--json", "--metric", metric, direction, NULL});
	ck_assert_msg(integer(tree, "total") == want, "%s of the tree: %ld, not %ld", metric,
		(long)integer(tree, "total"), (long)want);
	ck_assert_int_eq(sum_of(tree, "nodes", "own"), want);
	check_nodes(tree);
	return tree;
}

/* The first function name among the tree's nodes, without the first three nodes; NULL: there is
 * none. */
static const char *any_function(const json_t *tree)
{
	size_t index;
	json_t *node;
	json_array_foreach(json_object_get(tree, "nodes"), index, node)
	{
		const json_t *frame = json_object_get(node, "frame");
		if (index < 3 || !json_is_integer(frame))
			continue;
		const char *name = json_string_value(
			json_object_get(json_array_get(json_object_get(tree, "frames"),
						(size_t)json_integer_value(frame)),
				"function"));
		if (name)
			return name;
	}
	return NULL;
}

static void check_function(const char *trace, const char *name)
{
	json_t *of = faces_load(
		(const char *[]){"callers", trace, name, "--json", "--metric", "allocated", NULL});
	const int64_t inclusive = integer(of, "inclusive"), own = integer(of, "own");
	ck_assert_int_gt(inclusive, 0);
	ck_assert_int_eq(sum_of(of, "callers", "value") + integer(of, "outermost"), inclusive);
	ck_assert_int_eq(sum_of(of, "callees", "value") + own, inclusive);
	ck_assert_int_eq(sum_of(of, "lines", "own"), own);
	json_decref(of);
	json_decref(faces_load(
		(const char *[]){"source", trace, name, "--json", "--metric", "allocated", NULL}));
}

/* Each line must fit 80 columns. UTF-8 continuation bytes are not counted. */
static void check_columns(const char *const words[])
{
	char *out = faces_run(words);
	size_t columns = 0;
	for (const char *at = out; *at; at++) {
		columns = *at == '\n' ? 0 : columns + ((*at & 0xc0) != 0x80);
		ck_assert_msg(
			columns <= 80, "%s: %.*s", words[0], 100, at > out + 80 ? at - 80 : out);
	}
	free(out);
}

static void check_svg(const char *trace)
{
	char *path = tmpdir_path("faces.svg"), *err;
	free(faces_run(
		(const char *[]){"flame", trace, "-f", "-o", path, "--metric", "allocated", NULL}));
	const int status = run_program((const char *[]){"python3", "-c",
					       "import sys, xml.dom.minidom as d\n"
					       "d.parse(sys.argv[1])",
					       path, NULL},
		RUN_MS, NULL, &err);
	ck_assert_msg(status == 0, "%.1000s", err);
	free(err);
	free(path);
}

void faces_check(const char *trace)
{
	static const struct {
		const char *metric, *total;
	} figure[] = {{"outstanding", "totals.outstanding_bytes"},
		{"allocated", "totals.allocated_bytes"}, {"calls", "totals.allocations"},
		{"temporary", "totals.temporary"}};
	json_t *report =
		faces_load((const char *[]){"report", trace, "--json", "--limit", "1", NULL});
	for (size_t i = 0; i < HT_ARRAY_SIZE(figure); i++) {
		const int64_t want = (int64_t)report_u64(report, figure[i].total);
		json_t *tree = check_tree(trace, figure[i].metric, NULL, want);
		const char *name = any_function(tree);
		if (name && strcmp(figure[i].metric, "allocated") == 0)
			check_function(trace, name);
		json_decref(tree);
		json_decref(check_tree(trace, figure[i].metric, "--bottom-up", want));
	}
	json_decref(report);
	check_columns((const char *[]){"tree", trace, "--metric", "allocated", NULL});
	check_columns((const char *[]){"tree", trace, "--bottom-up", "--metric", "calls", NULL});
	check_columns((const char *[]){"flame", trace, "--metric", "allocated", NULL});
	check_svg(trace);
}
