/* SPDX-License-Identifier: Apache-2.0
 *
 * diff and trend for programs: bounds stand beside the figures of samples, and only there.
 */
#include "analyzer/export/compare_json.h"

#include <jansson.h>
#include <stdlib.h>

#include "tests/unit/analyzer/sides.h"

/* Blocks of 4095 bytes in a sample of one in 4096 (test_compare.c): the bound of 4 is 16,759, of 9
 * 24,029, of their difference 29,296. */
#define RATE	4096u
#define BOUND_4 16759.0
#define BOUND_9 24029.0
#define BOTH	29296.2

static struct side side[2];
static const struct view *view[2];
static struct compare compare;
static char *printed;
static size_t printed_length;

static FILE *begin(uint64_t sample_bytes)
{
	for (unsigned i = 0; i < 2; i++) {
		side_begin_sample(&side[i], 0x400000, 0, "/src", sample_bytes);
		const uint32_t node = side_frame(&side[i], 0, "grow", "a.c", 7);
		for (unsigned k = 0; k < (i ? 9 : 4); k++)
			side_alloc(&side[i], 1, RATE - 1, node);
		side_end(&side[i], 60);
		view[i] = side[i].view;
	}
	ck_no_err(compare_init(&compare, view, 2));
	return open_memstream(&printed, &printed_length);
}

static void end(void)
{
	free(printed);
	compare_deinit(&compare);
	for (unsigned i = 0; i < 2; i++)
		side_deinit(&side[i]);
}

static json_t *read_json(enum metric metric)
{
	static const char *const path[] = {"old.htap", "new.htap"};
	FILE *out = begin(RATE);
	ck_no_err(compare_json_write(out, &compare, path, metric, 0));
	fclose(out);
	json_t *root = json_loads(printed, 0, NULL);
	ck_assert_ptr_nonnull(root);
	return root;
}

static double number(const json_t *object, const char *name)
{
	const json_t *value = json_object_get(object, name);
	ck_assert_msg(json_is_number(value), "%s", name);
	return json_number_value(value);
}

static double element(const json_t *object, const char *name, size_t index)
{
	const json_t *value = json_array_get(json_object_get(object, name), index);
	ck_assert_msg(json_is_number(value), "%s", name);
	return json_number_value(value);
}

HT_TEST(samples_have_bounds)
{
	json_t *root = read_json(METRIC_OUTSTANDING);
	const json_t *traces = json_object_get(root, "traces");
	const json_t *site = json_array_get(json_object_get(root, "sites"), 0);
	ck_assert_double_eq_tol(
		number(json_array_get(traces, 0), "per_minute_bound95"), BOUND_4, 0.6);
	ck_assert_double_eq_tol(
		number(json_array_get(traces, 1), "per_minute_bound95"), BOUND_9, 0.6);
	ck_assert_double_eq_tol(number(root, "total_difference_bound95"), BOTH, 1);
	ck_assert_double_eq_tol(element(site, "per_minute", 0), 4 * 6478, 0.6);
	ck_assert_double_eq_tol(element(site, "per_minute_bound95", 0), BOUND_4, 0.6);
	ck_assert_double_eq_tol(element(site, "per_minute_bound95", 1), BOUND_9, 0.6);
	ck_assert_double_eq_tol(number(site, "difference_bound95"), BOTH, 1);
	json_decref(root);
	end();
	root = read_json(METRIC_LIVE);
	site = json_array_get(json_object_get(root, "sites"), 0);
	ck_assert_double_eq_tol(element(site, "value_bound95", 1), BOUND_9, 0.6);
	json_decref(root);
	end();
}

HT_TEST(columns_of_samples_have_bounds)
{
	FILE *out = begin(RATE);
	compare_csv_write(out, &compare, METRIC_LIVE, 0);
	fclose(out);
	ck_assert_str_eq(printed, "change,live_value_1,live_value_2,function,file,line,"
				  "live_value_1_bound95,live_value_2_bound95,difference_bound95\r\n"
				  "grown,25912.0,58302.0,\"grow\",\"/src/a.c\",7,"
				  "16759.0,24029.0,29296.0\r\n");
	end();
}

HT_TEST(whole_traces_have_none)
{
	static const char *const path[] = {"old.htap", "new.htap"};
	FILE *out = begin(0);
	ck_no_err(compare_json_write(out, &compare, path, METRIC_OUTSTANDING, 0));
	compare_csv_write(out, &compare, METRIC_OUTSTANDING, 0);
	fclose(out);
	ck_assert_ptr_null(strstr(printed, "bound95"));
	end();
}

HT_SUITE("analyzer/compare_json")