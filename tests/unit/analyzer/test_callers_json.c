/* SPDX-License-Identifier: Apache-2.0
 *
 * callers and source for programs: bounds stand beside the figures of samples, and only there.
 */
#include "analyzer/export/callers_json.h"

#include <jansson.h>
#include <stdlib.h>

#include "analyzer/export/source_json.h"
#include "tests/unit/analyzer/stage.h"

/* Blocks of 4095 bytes in a sample of one in 4096 (test_compare.c): each counts for 6478 bytes; the
 * bound of one is 10,146, of two 12,738, of three 14,885. */
#define RATE 4096u

static struct stage stage;
static struct analysis *analysis;
static struct view *view;
static struct calls calls;
static struct function_matches matches;
static struct function function;
static char *printed;
static size_t printed_length;

/* walk calls itself once, and allocates in two lines. */
static FILE *begin(uint64_t sample_bytes)
{
	const struct calls_options options = {.grouping = GROUPING_FUNCTION,
		.metric = METRIC_OUTSTANDING,
		.sort = METRIC_OUTSTANDING};
	stage_begin_sample(&stage, sample_bytes);
	const uint64_t pc = STAGE_LO + 0x9000;
	for (unsigned i = 0; i < 2; i++)
		stage_name(&stage, 1, pc + 0x100 * i, "walk", NULL, "walk.c", 10 + i);
	const uint32_t start = stage_node(&stage, 0, "main", NULL);
	const uint32_t walk = tracebuild_node(&stage.scene.trace, start, pc);
	stage_alloc(&stage, 0, RATE - 1, walk);
	stage_alloc(&stage, 0, RATE - 1, tracebuild_node(&stage.scene.trace, walk, pc + 0x100));
	stage_alloc(&stage, 0, RATE - 1, stage_node(&stage, walk, "make", NULL));
	analysis = scene_analyze(&stage.scene);
	view = scene_view(analysis, NULL);
	ck_no_err(calls_init(&calls, view, &options));
	ck_no_err(function_find(&calls, "walk", &matches));
	ck_no_err(function_init(&function, &calls, &matches));
	return open_memstream(&printed, &printed_length);
}

static void end(void)
{
	free(printed);
	function_deinit(&function);
	function_matches_deinit(&matches);
	calls_deinit(&calls);
	view_destroy(view);
	analysis_destroy(analysis);
	scene_deinit(&stage.scene);
}

static const struct source_places nowhere = {.sysroot = ""};

static json_t *load(FILE *out)
{
	fclose(out);
	json_t *root = json_loads(printed, 0, NULL);
	ck_assert_ptr_nonnull(root);
	return root;
}

static json_t *first(const json_t *object, const char *name)
{
	json_t *value = json_array_get(json_object_get(object, name), 0);
	ck_assert_msg(value, "%s", name);
	return value;
}

static void check(const json_t *object, const char *name, int64_t want)
{
	const json_t *value = json_object_get(object, name);
	ck_assert_msg(json_is_integer(value), "%s", name);
	ck_assert_msg(llabs(json_integer_value(value) - want) <= 1, "%s: %lld", name,
		(long long)json_integer_value(value));
}

HT_TEST(samples_have_bounds)
{
	FILE *out = begin(RATE);
	ck_no_err(callers_json_write(out, &calls, &matches, &function));
	json_t *root = load(out);
	check(root, "inclusive", 3 * 6478);
	check(root, "inclusive_bound95", 14885);
	check(root, "own_bound95", 12738);
	check(root, "recursive_bound95", 10146);
	check(root, "outermost_bound95", 0);
	check(first(root, "functions"), "total_bound95", 14885);
	check(first(root, "functions"), "own_bound95", 12738);
	check(first(root, "callers"), "value_bound95", 14885);
	check(first(root, "callees"), "value_bound95", 10146);
	check(first(root, "lines"), "total_bound95", 14885);
	check(first(root, "lines"), "own_bound95", 10146);
	json_decref(root);
	end();
}

HT_TEST(lines_of_source_have_bounds)
{
	FILE *out = begin(RATE);
	ck_no_err(source_json_write(out, &calls, &matches, &function, &nowhere));
	json_t *root = load(out);
	check(first(first(root, "files"), "lines"), "total_bound95", 14885);
	check(first(first(root, "files"), "lines"), "own_bound95", 10146);
	json_decref(root);
	end();
}

HT_TEST(columns_of_samples_have_bounds)
{
	FILE *out = begin(RATE);
	callers_csv_write(out, &calls, &matches, &function);
	ck_no_err(source_csv_write(out, &calls, &function, &nowhere));
	fclose(out);
	ck_assert_str_eq(printed,
		"kind,total,own,function,file,line,module,total_bound95,own_bound95\n"
		"function,19434,12956,\"walk\",\"walk.c\",,\"/usr/bin/x\",14885,12738\n"
		"caller,19434,,\"main\",,,\"/usr/bin/x\",14885,\n"
		"callee,6478,,\"make\",,,\"/usr/bin/x\",10146,\n"
		"line,19434,6478,,\"walk.c\",10,,14885,10146\n"
		"line,6478,6478,,\"walk.c\",11,,10146,10146\n"
		"file,line,total,own,text,total_bound95,own_bound95\n"
		"\"walk.c\",10,19434,6478,,14885,10146\n"
		"\"walk.c\",11,6478,6478,,10146,10146\n");
	end();
}

HT_TEST(whole_traces_have_none)
{
	FILE *out = begin(0);
	ck_no_err(callers_json_write(out, &calls, &matches, &function));
	ck_no_err(source_json_write(out, &calls, &matches, &function, &nowhere));
	callers_csv_write(out, &calls, &matches, &function);
	ck_no_err(source_csv_write(out, &calls, &function, &nowhere));
	fclose(out);
	ck_assert_ptr_null(strstr(printed, "bound95"));
	end();
}

HT_SUITE("analyzer/callers_json")