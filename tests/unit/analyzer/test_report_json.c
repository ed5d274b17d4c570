/* SPDX-License-Identifier: Apache-2.0
 *
 * The JSON report, parsed back: its names, its sums, hostile strings, cut traces.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/export/report_json.h"
#include "format/abi_control.h"
#include "tests/unit/analyzer/scene.h"

#define MODULE_LO 0x400000u
#define BUILD_ID  "\x01\x02\xab\xcd"

static struct scene scene;
static struct analysis *analysis;
static json_t *root;

static void load_report_of(const struct report_options *options, bool shows_wrappers)
{
	char *text = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);
	ck_assert_ptr_nonnull(out);
	struct view *view = scene_view_of_all(analysis, shows_wrappers);
	ck_no_err(report_json_write(out, view, options));
	view_destroy(view);
	fclose(out);
	json_error_t error;
	root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
	ck_assert_msg(root, "%s at %d: %s", error.text, error.position, text);
	free(text);
}

static void load_report_with(size_t limit, bool shows_wrappers)
{
	const struct report_options options = {.limit = limit, .order = METRIC_OUTSTANDING};
	load_report_of(&options, shows_wrappers);
}

static void load_report(size_t limit)
{
	load_report_with(limit, false);
}

static void end(void)
{
	json_decref(root);
	root = NULL;
	analysis_destroy(analysis);
	scene_deinit(&scene);
}

static const json_t *at(const json_t *value, const char *name)
{
	const json_t *member = json_object_get(value, name);
	ck_assert_msg(member, "no member %s", name);
	return member;
}

static int64_t integer(const json_t *value, const char *name)
{
	ck_assert_msg(json_is_integer(at(value, name)), "%s is no integer", name);
	return json_integer_value(at(value, name));
}

static const char *string(const json_t *value, const char *name)
{
	ck_assert_msg(json_is_string(at(value, name)), "%s is no string", name);
	return json_string_value(at(value, name));
}

/* Returns frame `index` of a stack; 0: the innermost. */
static const json_t *frame_at(const json_t *stack, size_t index)
{
	const json_t *number = json_array_get(at(stack, "frames"), index);
	ck_assert(json_is_integer(number));
	return json_array_get(at(root, "frames"), (size_t)json_integer_value(number));
}

/* main -> outer (with inner inlined) -> malloc, and an address of no module. */
static void make_scene(void)
{
	scene_init(&scene);
	struct tracebuild *trace = &scene.trace;
	tracebuild_module(trace, 1, "/usr/bin/target", BUILD_ID, MODULE_LO, MODULE_LO + 0x1000);
	tracebuild_thread(trace, SCENE_TID(0), "worker");
	uint32_t root_node = tracebuild_node(trace, 0, 0x7000);
	uint32_t main_node = tracebuild_node(trace, root_node, MODULE_LO + 0x20);
	uint32_t leaf = tracebuild_node(trace, main_node, MODULE_LO + 0x100);
	scene_malloc(&scene, 0, 0x1000, 100, leaf);
	scene_alloc(&scene, 0, ABI_HOOK_CALLOC, 0x2000, 50, main_node);
	scene_free(&scene, 0, 0x2000, 56);
	scene_free(&scene, 1, 0x3000, 24);
	tracebuild_rss(trace, scene.now, 5 << 20);
	tracebuild_rss(trace, scene.now, 4 << 20);
	tracebuild_loss(trace, REC_COUNTER_LOST_TIMEOUT, 3);
	tracebuild_loss(trace, REC_COUNTER_TRUNC_DEPTH, 2);
	tracebuild_loss(trace, REC_COUNTER_NESTED, 4);
	tracebuild_loss(trace, REC_COUNTER_UNTAPPED, 1);
	const struct rec symbol = {
		.kind = REC_SYMBOL,
		.symbol = {.module_id = 1,
			.offset = 0xff,
			.frame_count = 2,
			.frame = {{.function = {"inner", 5}, .file = {"in.h", 4}, .line = 7},
				{.function = {"outer(int)", 10}, .file = {"out.c", 5}, .line = 9}}},
	};
	tracebuild_put(trace, &symbol);
	tracebuild_symbol(trace, 1, 0x1f, "main", NULL, 0);
}

HT_TEST(members_have_their_names)
{
	make_scene();
	analysis = scene_analyze(&scene);
	load_report(0);
	ck_assert_str_eq(string(root, "schema"), "heaptap.report/2");
	const json_t *target = at(root, "target"), *capture = at(root, "capture");
	ck_assert_int_eq(integer(target, "pid"), 4242);
	ck_assert_str_eq(string(target, "comm"), "target");
	ck_assert_int_gt(integer(capture, "start_unix_ns"), 0);
	ck_assert_int_eq(integer(capture, "duration_ns"), (int64_t)(scene.now - SCENE_START_NS));
	ck_assert_str_eq(string(capture, "ended"), "duration");
	ck_assert_int_eq(integer(capture, "dropped_events"), 3);
	ck_assert_int_eq(integer(capture, "nested_events"), 4);
	ck_assert_int_eq(integer(capture, "truncated_stacks"), 2);
	ck_assert_int_eq(integer(capture, "untapped"), 1);
	const json_t *totals = at(root, "totals");
	ck_assert_int_eq(integer(totals, "allocations"), 2);
	ck_assert_int_eq(integer(totals, "allocated_bytes"), 150);
	ck_assert_int_eq(integer(totals, "frees"), 1);
	ck_assert_int_eq(integer(totals, "freed_bytes"), 50);
	ck_assert_int_eq(integer(totals, "before_frees"), 1);
	ck_assert_int_eq(integer(totals, "before_freed_bytes"), 24);
	ck_assert_int_eq(integer(totals, "temporary"), 1);
	ck_assert_int_eq(integer(totals, "outstanding_blocks"), 1);
	ck_assert_int_eq(integer(totals, "outstanding_bytes"), 100);
	ck_assert_int_eq(integer(totals, "peak_bytes"), 150);
	ck_assert_int_eq(integer(totals, "peak_time_ns"), 2 * SCENE_STEP_NS);
	const json_t *rss = at(root, "rss");
	ck_assert_int_eq(integer(rss, "first_bytes"), 5 << 20);
	ck_assert_int_eq(integer(rss, "growth_bytes"), -(1 << 20));
	ck_assert_int_eq(integer(rss, "explained_bytes"), 100 - 24);
	ck_assert_int_eq(integer(rss, "explicable_bytes"), 225 + 2 * 32 + (32 << 20) + (2 << 18));
	ck_assert_uint_eq(json_array_size(at(root, "sizes")), 2);
	ck_assert_uint_eq(json_array_size(at(root, "timeline")), 1);
	ck_assert_uint_eq(json_array_size(at(root, "warnings")), 4);
	end();
}

HT_TEST(frames_are_leaf_first_with_inlines)
{
	make_scene();
	analysis = scene_analyze(&scene);
	load_report(0);
	const json_t *stack = json_array_get(at(root, "stacks"), 0);
	ck_assert_int_eq(integer(stack, "outstanding_bytes"), 100);
	ck_assert_int_eq(integer(stack, "peak_bytes"), 100);
	ck_assert_int_eq(integer(at(stack, "functions"), "malloc"), 1);
	ck_assert_uint_eq(json_array_size(at(stack, "frames")), 4);
	const json_t *inner = frame_at(stack, 0), *outer = frame_at(stack, 1);
	ck_assert_str_eq(string(inner, "function"), "inner");
	ck_assert_str_eq(string(inner, "file"), "in.h");
	ck_assert_int_eq(integer(inner, "line"), 7);
	ck_assert(json_is_true(at(inner, "inlined")));
	ck_assert_str_eq(string(outer, "function"), "outer(int)");
	ck_assert(json_is_false(at(outer, "inlined")));
	ck_assert_str_eq(string(outer, "module"), "/usr/bin/target");
	ck_assert_str_eq(string(outer, "build_id"), "0102abcd");
	ck_assert_int_eq(integer(outer, "offset"), 0xff);
	ck_assert_str_eq(string(frame_at(stack, 2), "function"), "main");
	const json_t *nowhere = frame_at(stack, 3);
	ck_assert(json_is_null(at(nowhere, "function")));
	ck_assert(json_is_null(at(nowhere, "module")));
	ck_assert_int_eq(integer(nowhere, "offset"), 0x6fff);
	/* The other stack also ends in main: no frame is in the list twice. */
	ck_assert_uint_eq(json_array_size(at(root, "frames")), 4);
	const json_t *other = json_array_get(at(root, "stacks"), 1);
	ck_assert_ptr_eq(frame_at(other, 0), frame_at(stack, 2));
	end();
}

/* The program node maps its own code twice: its frames are listed once. Another file may have the
 * same name, or the same function. */
HT_TEST(a_frame_of_a_file_that_is_mapped_twice_is_there_once)
{
	static const struct {
		const char *path, *build_id;
	} module[] = {{"/usr/bin/node", BUILD_ID}, {"/usr/bin/node", BUILD_ID},
		{"/usr/bin/node", "\x05\x06"}, {"/usr/lib/node.so", BUILD_ID}};
	scene_init(&scene);
	for (uint32_t i = 0; i < HT_ARRAY_SIZE(module); i++) {
		const uint64_t lo = MODULE_LO + 0x100000 * i;
		tracebuild_module(
			&scene.trace, i + 1, module[i].path, module[i].build_id, lo, lo + 0x1000);
		tracebuild_symbol(&scene.trace, i + 1, 0x1f, "make", "make.c", 3);
		scene_malloc(&scene, 0, 0x1000 * (i + 1), 100,
			tracebuild_node(&scene.trace, 0, lo + 0x20));
	}
	analysis = scene_analyze(&scene);
	load_report(0);
	ck_assert_uint_eq(json_array_size(at(root, "stacks")), 4);
	ck_assert_uint_eq(json_array_size(at(root, "frames")), 3);
	unsigned same = 0;
	for (size_t i = 0; i < 4; i++) {
		const json_t *stack = json_array_get(at(root, "stacks"), i);
		ck_assert_str_eq(string(frame_at(stack, 0), "function"), "make");
		ck_assert_int_eq(integer(frame_at(stack, 0), "offset"), 0x1f);
		same += integer(stack, "id") <= 2 &&
			json_integer_value(json_array_get(at(stack, "frames"), 0)) ==
				json_integer_value(json_array_get(
					at(json_array_get(at(root, "stacks"), 0), "frames"), 0));
	}
	ck_assert_uint_eq(same, 2);
	end();
}

static uint32_t interpreted(uint64_t number)
{
	struct bytes_out body = {0};
	const uint32_t id = ++scene.trace.node_count;
	const struct rec_node node = {.pc = number, .flags = ABI_NODE_EXACT | ABI_NODE_INTERPRETED};
	ck_no_err(rec_node_append(&body, &node));
	const struct rec rec = {.kind = REC_NODES,
		.nodes = {.first_id = id, .count = 1, .body = bytes_of(body.data, body.length)}};
	tracebuild_put(&scene.trace, &rec);
	bytes_out_deinit(&body);
	return id;
}

/* Three places in an interpreted function have three numbers, but those on one line are one frame.
 */
HT_TEST(an_interpreted_function_is_there_once)
{
	scene_init(&scene);
	for (uint64_t i = 0; i < 3; i++) {
		const struct rec symbol = {.kind = REC_SYMBOL,
			.symbol = {.module_id = TRACE_MODULE_SCRIPTS,
				.offset = 0x100000002 + i,
				.frame_count = 1,
				.frame = {{.function = {"keep", 4}, .line = i < 2 ? 7 : 8}}}};
		scene_malloc(&scene, 0, 0x1000 * (i + 1), 100, interpreted(0x100000002 + i));
		tracebuild_put(&scene.trace, &symbol);
	}
	const struct rec hold = {
		.kind = REC_SCRIPTS, .scripts = {.generation = 1, .until_tsc = scene.now + 1}};
	tracebuild_put(&scene.trace, &hold);
	analysis = scene_analyze(&scene);
	load_report(0);
	ck_assert_uint_eq(json_array_size(at(root, "stacks")), 3);
	ck_assert_uint_eq(json_array_size(at(root, "frames")), 2);
	end();
}

/* Returns the entry of the list that stands for the folded stacks. */
static const json_t *folded_in(const json_t *array, const char *name)
{
	size_t index;
	const json_t *entry;
	json_array_foreach(array, index, entry)
	{
		const json_t *value = at(entry, name);
		if (json_is_null(value) ||
			(json_is_string(value) &&
				strcmp(json_string_value(value), "(folded)") == 0))
			return entry;
	}
	ck_abort_msg("no folded entry in the list");
}

/* The cube folds stacks only beyond a million cells: here the test folds one. Neither its thread,
 * nor its function, nor its sizes are known any more. */
HT_TEST(folded_stacks_are_a_part_of_their_own)
{
	static const struct {
		const char *list, *name;
	} part[] = {{"threads", "name"}, {"functions", "name"}, {"sizes", "from_bytes"}};
	make_scene();
	analysis = scene_analyze(&scene);
	struct cube *cube = &analysis->cube;
	for (uint32_t i = 0; i < cube->site_count; i++)
		if (cube_site_hook(&cube->site[i]) == ABI_HOOK_MALLOC) {
			cube->site[i] = (struct cube_site){.node = CUBE_OTHER,
				.cell = cube->site[i].cell,
				.live_bytes = cube->site[i].live_bytes};
			cube->other = i + 1;
		}
	ck_assert_uint_ne(cube->other, 0);
	load_report(0);
	for (size_t i = 0; i < HT_ARRAY_SIZE(part); i++) {
		const json_t *folded = folded_in(at(root, part[i].list), part[i].name);
		ck_assert_int_eq(integer(folded, "allocated_bytes"), 100);
		ck_assert_int_eq(integer(folded, "allocations"), 1);
		int64_t sum = 0;
		size_t index;
		const json_t *entry;
		json_array_foreach(at(root, part[i].list), index, entry) sum +=
			integer(entry, "allocated_bytes");
		ck_assert_int_eq(sum, 150);
	}
	const json_t *thread = json_array_get(at(root, "threads"), 0);
	ck_assert_int_eq(integer(thread, "allocated_bytes"), 50);
	const json_t *stack = json_array_get(at(root, "stacks"), 0);
	ck_assert_uint_eq(json_array_size(at(stack, "frames")), 0);
	ck_assert_uint_eq(json_object_size(at(stack, "functions")), 0);
	end();
}

static int64_t site_of_stack(int64_t id)
{
	size_t index;
	const json_t *stack;
	json_array_foreach(at(root, "stacks"), index,
		stack) if (integer(stack, "id") == id) return integer(stack, "site");
	ck_abort_msg("no stack %ld", id);
}

/* The report has every frame of every stack, and says where the frames that views show begin. */
HT_TEST(wrappers_are_counted)
{
	make_scene();
	const struct rec symbol = {
		.kind = REC_SYMBOL,
		.symbol = {.module_id = 1,
			.offset = 0x2ff,
			.frame_count = 2,
			.frame = {{.function = {"std::g()", 8}},
				{.function = {"operator new(unsigned long)", 27}}}},
	};
	tracebuild_put(&scene.trace, &symbol);
	uint32_t leaf = tracebuild_node(&scene.trace, 2, MODULE_LO + 0x300);
	scene_malloc(&scene, 0, 0x9000, 1000, leaf);
	analysis = scene_analyze(&scene);
	load_report(0);
	const json_t *stack = json_array_get(at(root, "stacks"), 0);
	ck_assert_int_eq(integer(stack, "id"), leaf);
	ck_assert_int_eq(integer(stack, "wrappers"), 2);
	ck_assert_uint_eq(json_array_size(at(stack, "frames")), 4);
	ck_assert_int_eq(integer(stack, "site"), site_of_stack(2));
	ck_assert_int_ne(integer(stack, "site"), site_of_stack(3));
	json_decref(root);
	load_report_with(0, true);
	stack = json_array_get(at(root, "stacks"), 0);
	ck_assert_int_ne(integer(stack, "site"), site_of_stack(2));
	ck_assert_int_eq(integer(stack, "wrappers"), 0);
	ck_assert_uint_eq(json_array_size(at(stack, "frames")), 4);
	end();
}

HT_TEST(threads_and_functions_are_distinguished)
{
	make_scene();
	analysis = scene_analyze(&scene);
	load_report(0);
	const json_t *thread = json_array_get(at(root, "threads"), 0);
	ck_assert_int_eq(integer(thread, "tid"), SCENE_TID(0));
	ck_assert_str_eq(string(thread, "name"), "worker");
	ck_assert_int_eq(integer(thread, "allocations"), 2);
	ck_assert_int_eq(integer(thread, "frees"), 1);
	ck_assert_int_eq(integer(json_array_get(at(root, "threads"), 1), "before_frees"), 1);
	const json_t *functions = at(root, "functions");
	ck_assert_str_eq(string(json_array_get(functions, 0), "name"), "malloc");
	ck_assert_str_eq(string(json_array_get(functions, 1), "name"), "calloc");
	ck_assert_int_eq(integer(json_array_get(functions, 1), "allocated_bytes"), 50);
	ck_assert_str_eq(string(json_array_get(functions, 2), "name"), "free");
	ck_assert_int_eq(integer(json_array_get(functions, 2), "frees"), 1);
	end();
}

HT_TEST(a_limit_cuts_the_list_only)
{
	make_scene();
	analysis = scene_analyze(&scene);
	load_report(1);
	ck_assert_uint_eq(json_array_size(at(root, "stacks")), 1);
	ck_assert_int_eq(integer(root, "stacks_total"), 2);
	end();
}

HT_TEST(names_that_are_no_utf8_are_replaced)
{
	scene_init(&scene);
	tracebuild_thread(&scene.trace, SCENE_TID(0), "bad\xff\"\n\x01");
	scene_malloc(&scene, 0, 0x1000, 1, 0);
	analysis = scene_analyze(&scene);
	load_report(0);
	ck_assert_str_eq(string(json_array_get(at(root, "threads"), 0), "name"), "bad?\"\n\x01");
	end();
}

HT_TEST(an_empty_trace_is_a_report)
{
	scene_init(&scene);
	analysis = scene_analyze(&scene);
	load_report(0);
	ck_assert_int_eq(integer(at(root, "totals"), "allocations"), 0);
	ck_assert_uint_eq(json_array_size(at(root, "stacks")), 0);
	end();
}

static void load_cut(const struct bytes_out *whole, size_t length)
{
	int fd = tracebuild_memfd(whole->data, length);
	struct ht_err *err = analysis_create(fd, "cut", NULL, &analysis);
	close(fd);
	if (err) {
		ck_assert_int_eq(err->code, HT_ERR_FORMAT);
		ht_err_free(err);
		return;
	}
	load_report(0);
	ck_assert_int_eq(integer(at(root, "totals"), "allocations"),
		(int64_t)analysis->cube.total.allocations);
	ck_assert(analysis->model.how_ended != TRACE_COMPLETE);
	ck_assert(json_is_false(at(at(root, "capture"), "complete")));
	ck_assert_uint_ge(json_array_size(at(root, "warnings")), 1);
	json_decref(root);
	analysis_destroy(analysis);
	root = NULL;
}

HT_TEST(a_trace_cut_anywhere_reports_what_is_there)
{
	make_scene();
	struct analysis *all = scene_analyze(&scene);
	analysis_destroy(all);
	struct bytes_out whole = {0};
	tracebuild_slurp(scene.trace.fd, &whole);
	for (size_t length = 0; length < whole.length; length++)
		load_cut(&whole, length);
	bytes_out_deinit(&whole);
	scene_deinit(&scene);
}

HT_TEST(a_sample_says_that_it_is_one)
{
	scene_init_sample(&scene, 1 << 19);
	for (unsigned i = 0; i < 400; i++)
		scene_malloc(&scene, 0, 0x10000 + 0x1000 * i, 99, 0);
	tracebuild_rss(&scene.trace, scene.now, 3 << 20);
	analysis = scene_analyze(&scene);
	load_report(0);
	ck_assert_int_eq(integer(at(root, "capture"), "sample_bytes"), 1 << 19);
	const json_t *sets[] = {at(root, "totals"), json_array_get(at(root, "stacks"), 0),
		json_array_get(at(root, "threads"), 0), json_array_get(at(root, "sizes"), 0)};
	for (size_t i = 0; i < HT_ARRAY_SIZE(sets); i++) {
		ck_assert_int_eq(integer(sets[i], "samples"), 400);
		ck_assert_int_eq(integer(sets[i], "outstanding_bytes"), 400 * 519095);
		ck_assert_int_eq(integer(sets[i], "allocations") / 400, 5243);
		ck_assert(json_is_null(at(sets[i], "temporary")));
	}
	ck_assert(json_is_null(at(json_array_get(at(root, "timeline"), 0), "temporary")));
	ck_assert(json_is_null(at(at(root, "rss"), "explained_bytes")));
	end();
}

HT_TEST(suspects_point_to_their_stacks)
{
	scene_init(&scene);
	tracebuild_module(
		&scene.trace, 1, "/usr/bin/x", "12345678901234567890", 0x400000, 0x500000);
	const uint32_t caller = tracebuild_node(&scene.trace, 0, 0x400100);
	const uint32_t leaf = tracebuild_node(&scene.trace, caller, 0x400200);
	tracebuild_symbol(&scene.trace, 1, 0x1ff, "leak", "/src/leak.c", 7);
	for (uint64_t i = 0; i < 1200; i++) {
		scene_malloc(&scene, 0, 0x10000000 + 0x1000 * i, 100, leaf);
		scene.now += 50000000;
	}
	analysis = scene_analyze(&scene);
	load_report(1);
	ck_assert_uint_eq(json_array_size(at(root, "suspects")), 1);
	const json_t *suspect = json_array_get(at(root, "suspects"), 0);
	ck_assert_str_eq(string(suspect, "class"), "growing");
	ck_assert_int_eq(integer(suspect, "outstanding_bytes"), 120000);
	ck_assert_double_eq_tol(json_number_value(at(suspect, "slope_bytes_per_s")), 2000, 100);
	ck_assert_double_ge(json_number_value(at(suspect, "confidence")), 0.5);
	ck_assert_str_eq(string(suspect, "function"), "leak");
	ck_assert_str_eq(string(suspect, "file"), "/src/leak.c");
	ck_assert_int_eq(integer(suspect, "line"), 7);
	ck_assert_int_gt(strlen(string(suspect, "text")), 20);
	ck_assert_uint_eq(json_array_size(at(suspect, "stack")), 2);
	const json_t *number = json_array_get(at(suspect, "stack"), 0);
	ck_assert_str_eq(
		string(json_array_get(at(root, "frames"), (size_t)json_integer_value(number)),
			"function"),
		"leak");
	end();
}

HT_TEST(tables_and_classes)
{
	const struct report_options options = {.order = METRIC_ALLOCATED,
		.has_by = true,
		.by = BREAKDOWN_FUNCTION,
		.has_class = true,
		.of_class = SUSPECT_GROWING};
	make_scene();
	analysis = scene_analyze(&scene);
	load_report_of(&options, false);
	ck_assert_uint_eq(json_array_size(at(root, "suspects")), 0);
	ck_assert_uint_eq(json_array_size(at(root, "stacks")), 0);
	const json_t *rows = at(at(root, "breakdown"), "rows");
	int64_t sum = 0;
	for (size_t i = 0; i < json_array_size(rows); i++) {
		const json_t *row = json_array_get(rows, i);
		sum += integer(at(row, "own"), "allocated_bytes");
		ck_assert_int_ge(integer(at(row, "inclusive"), "allocated_bytes"),
			integer(at(row, "own"), "allocated_bytes"));
		ck_assert(json_is_null(at(row, "frame")) ||
			  json_array_get(at(root, "frames"), (size_t)integer(row, "frame")));
	}
	ck_assert_int_eq(sum, integer(at(root, "totals"), "allocated_bytes"));
	end();
}

HT_SUITE("analyzer/report_json")
