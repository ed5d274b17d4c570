/* SPDX-License-Identifier: Apache-2.0
 *
 * Firefox's profile: events in their order, tables that fit together, a counter of the same bytes,
 * and a bound on the number of events that keeps sums right.
 */
#include <jansson.h>
#include <math.h>

#include "tests/unit/analyzer/exported.h"

static struct exported exported;

static const json_t *at(const json_t *root, const char *path)
{
	char copy[128], *rest = NULL;
	snprintf(copy, sizeof(copy), "%s", path);
	for (char *key = strtok_r(copy, ".", &rest); key; key = strtok_r(NULL, ".", &rest)) {
		root = json_is_array(root) ? json_array_get(root, strtoul(key, NULL, 10))
					   : json_object_get(root, key);
		ck_assert_msg(root, "no %s in %s", key, path);
	}
	return root;
}

static void check(const json_t *root, const char *path, const char *want)
{
	char *got = json_dumps(at(root, path), JSON_COMPACT | JSON_ENCODE_ANY);
	ck_assert_msg(!strcmp(got, want), "%s is %s, not %s", path, got, want);
	free(got);
}

static int64_t sum_of(const json_t *root, const char *path, bool positive)
{
	const json_t *array = at(root, path), *value;
	size_t index;
	int64_t sum = 0;
	json_array_foreach(array, index, value)
	{
		const json_int_t number = json_integer_value(value);
		sum += positive && number < 0 ? 0 : number;
	}
	return sum;
}

#define EVENTS "threads.0.nativeAllocations"

HT_TEST(events_and_tables)
{
	exported_begin(&exported);
	json_t *root = json_loads(exported_as(&exported, "firefox", NULL), 0, NULL);
	ck_assert_ptr_nonnull(root);
	ck_assert_str_eq(exported.job.note, "");
	check(root, "meta.preprocessedProfileVersion", "60");
	check(root, EVENTS ".length", "6");
	check(root, EVENTS ".weight", "[100,30,-30,7,1,-1]");
	check(root, EVENTS ".stack", "[2,2,2,3,null,null]");
	check(root, EVENTS ".memoryAddress", "[4096,8192,8192,12288,16384,16384]");
	check(root, EVENTS ".threadId", "[100,100,100,101,101,101]");
	check(root, "shared.stackTable.frame", "[0,1,2,3]");
	check(root, "shared.stackTable.prefix", "[null,0,1,0]");
	check(root, "shared.frameTable.address", "[255,511,511,767]");
	check(root, "shared.frameTable.inlineDepth", "[0,0,1,0]");
	check(root, "shared.frameTable.func", "[0,1,2,3]");
	check(root, "shared.frameTable.line", "[10,9,7,null]");
	check(root, "shared.funcTable.name", "[0,2,4,6]");
	check(root, "shared.funcTable.source", "[0,1,2,null]");
	check(root, "shared.funcTable.resource", "[0,0,0,0]");
	check(root, "shared.stringArray",
		"[\"main\",\"src/main.c\",\"caller\",\"src/out.c\",\"inner\",\"src/in.h\","
		"\"target+0x2ff\",\"target\"]");
	check(root, "libs.0.breakpadId", "\"343332313635383739303132333435360\"");
	check(root, "libs.0.codeId", "\"3132333435363738393031323334353637383930\"");
	ck_assert_int_eq(sum_of(root, "counters.0.samples.count", false), 107);
	ck_assert_int_eq(sum_of(root, "counters.0.samples.number", false), 6);
	json_decref(root);
	exported_end(&exported);
}

HT_TEST(a_window_has_its_own_events)
{
	struct query query;
	query_init(&query);
	query.from = "+100ms";
	exported = (struct exported){0};
	scene_init(&exported.scene);
	scene_malloc(&exported.scene, 0, 0x1000, 10, 0);
	exported.scene.now += 200000000;
	scene_free(&exported.scene, 0, 0x1000, 24);
	scene_malloc(&exported.scene, 0, 0x2000, 20, 0);
	json_t *root = json_loads(exported_as(&exported, "firefox", &query), 0, NULL);
	check(root, EVENTS ".weight", "[20]");
	const double time_ms = json_real_value(at(root, EVENTS ".time.0"));
	ck_assert_double_ge(time_ms, 99);
	ck_assert_double_le(time_ms, 101);
	ck_assert_int_eq(sum_of(root, "counters.0.samples.count", false), 20);
	json_decref(root);
	/* The part before, in which the block is not freed yet. */
	query_init(&query);
	query.to = "+100ms";
	root = json_loads(exported_as(&exported, "firefox", &query), 0, NULL);
	check(root, EVENTS ".weight", "[10]");
	ck_assert_int_eq(sum_of(root, "counters.0.samples.count", false), 10);
	json_decref(root);
	query_init(&query);
	query.min_size = 15;
	root = json_loads(exported_as(&exported, "firefox", &query), 0, NULL);
	check(root, EVENTS ".weight", "[20]");
	json_decref(root);
	exported_end(&exported);
}

/* 400,000 allocations of 16 bytes and 200,000 frees, and some large ones, which are never left out.
 */
HT_TEST(too_many_events_are_a_sample)
{
	const unsigned blocks = 400000, freed = 200000;
	const int64_t large = 10 * (1 << 20);
	exported = (struct exported){0};
	scene_init(&exported.scene);
	for (unsigned i = 0; i < blocks; i++) {
		scene_malloc(&exported.scene, 0, 0x10000 + 0x20 * i, 16, 0);
		if (i % 1000 == 0)
			scene_sync(&exported.scene);
	}
	for (unsigned i = 0; i < freed; i++) {
		scene_free(&exported.scene, 0, 0x10000 + 0x20 * i, 24);
		if (i % 1000 == 0)
			scene_sync(&exported.scene);
	}
	for (unsigned i = 0; i < 10; i++)
		scene_malloc(&exported.scene, 0, 0x100000000 + 0x200000 * i, 1 << 20, 0);
	json_t *root = json_loads(exported_as(&exported, "firefox", NULL), 0, NULL);
	ck_assert_ptr_nonnull(strstr(exported.job.note, "are a sample"));
	ck_assert_int_le(json_integer_value(at(root, EVENTS ".length")), 500000);
	/* With a rate of 32 each block of 16 bytes is drawn with probability 1/2: the sums must be
	 * within five standard deviations. */
	const double allocated = 16.0 * blocks, left = 16.0 * (blocks - freed);
	const double drawn = (double)(sum_of(root, EVENTS ".weight", true) - large);
	const double kept = (double)(sum_of(root, EVENTS ".weight", false) - large);
	ck_assert_double_lt(fabs(drawn - allocated), 5 * 16 * sqrt(blocks));
	ck_assert_double_lt(fabs(kept - left), 5 * 16 * sqrt(blocks - freed));
	ck_assert_int_eq(sum_of(root, "counters.0.samples.count", false),
		16 * (int64_t)(blocks - freed) + large);
	json_decref(root);
	exported_end(&exported);
}

HT_SUITE("analyzer/firefox")
