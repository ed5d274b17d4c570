/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of a view as suspects: each row that has memory has one class, and growing rows come
 * first.
 */
#include "analyzer/views/suspects.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/views/callers.h"
#include "tests/unit/analyzer/scene.h"

#define STEP_NS 50000000u

static struct scene scene;
static struct analysis *analysis;
static struct view *view;
static struct suspects suspects;

/* Makes a minute: "leak" keeps 100 B each step, "cache" takes 1 MiB in the first second, "buffer"
 * frees its block of the step before, "gone" has no block at the end. */
static void make_minute(void)
{
	static const char *const name[] = {"leak", "cache", "buffer", "gone"};
	uint32_t node[HT_ARRAY_SIZE(name)];
	scene_init(&scene);
	tracebuild_module(
		&scene.trace, 1, "/usr/bin/x", "12345678901234567890", 0x400000, 0x500000);
	for (uint32_t i = 0; i < HT_ARRAY_SIZE(name); i++) {
		node[i] = tracebuild_node(&scene.trace, 0, 0x400100 + 0x100 * i);
		tracebuild_symbol(&scene.trace, 1, 0xff + 0x100 * i, name[i], "x.c", i + 1);
	}
	for (uint64_t i = 0; i < 60000000000 / STEP_NS; i++) {
		scene_malloc(&scene, 0, 0x10000000 + 0x1000 * i, 100, node[0]);
		if (i < 16)
			scene_malloc(&scene, 0, 0x20000000 + 0x100000 * i, 1 << 16, node[1]);
		if (i)
			scene_free(&scene, 0, 0x30000000 + 0x1000 * (i - 1), 0);
		scene_malloc(&scene, 0, 0x30000000 + 0x1000 * i, 4000, node[2]);
		scene_malloc(&scene, 0, 0x40000000, 50, node[3]);
		scene_free(&scene, 0, 0x40000000, 0);
		scene.now += STEP_NS;
	}
	analysis = scene_analyze(&scene);
	view = scene_view_of_all(analysis, false);
}

static void end(void)
{
	suspects_deinit(&suspects);
	view_destroy(view);
	analysis_destroy(analysis);
	scene_deinit(&scene);
}

static const char *function_of(size_t entry)
{
	const uint32_t frame = suspects_leaf_frame(view, &view->row[suspects.entry[entry].row]);
	ck_assert_uint_ne(frame, UINT32_MAX);
	return view->frames.frame[frame].function;
}

HT_TEST(growing_stacks_come_first)
{
	make_minute();
	ck_no_err(suspects_find(view, &suspects));
	ck_assert_uint_eq(suspects.count, 3);
	ck_assert_uint_eq(suspects.growing, 1);
	ck_assert_str_eq(function_of(0), "leak");
	ck_assert_int_eq(suspects.entry[0].suspect.class, SUSPECT_GROWING);
	ck_assert_double_eq_tol(suspects.entry[0].suspect.slope_bytes_per_s, 2000, 100);
	ck_assert_str_eq(function_of(1), "cache");
	ck_assert_int_eq(suspects.entry[1].suspect.class, SUSPECT_PLATEAU);
	ck_assert_str_eq(function_of(2), "buffer");
	ck_assert_int_eq(suspects.entry[2].suspect.class, SUSPECT_CHURN);
	end();
}

HT_TEST(rows_without_memory_have_no_class)
{
	enum suspect_class *class;
	make_minute();
	ck_no_err(suspects_find(view, &suspects));
	ck_no_err(suspects_classes(view, &suspects, &class));
	ck_assert_uint_eq(view->row_count, 4);
	for (uint32_t i = 0; i < view->row_count; i++) {
		const uint32_t frame = suspects_leaf_frame(view, &view->row[i]);
		const char *name = view->frames.frame[frame].function;
		ck_assert_int_eq(class[i], strcmp(name, "leak") == 0	 ? SUSPECT_GROWING
					   : strcmp(name, "cache") == 0	 ? SUSPECT_PLATEAU
					   : strcmp(name, "buffer") == 0 ? SUSPECT_CHURN
									 : SUSPECT_CLASS_COUNT);
	}
	free(class);
	end();
}

/* In the first minute, which the query chooses, a batch looks like a leak; later the batch frees
 * its blocks. */
HT_TEST(blocks_freed_after_the_window_do_not_grow)
{
	struct query query;
	uint64_t count = 0;
	scene_init(&scene);
	tracebuild_module(&scene.trace, 1, "/bin/app", NULL, 0x400000, 0x500000);
	const uint32_t stack = tracebuild_node(&scene.trace, 0, 0x400010);
	for (; count < 60000000000 / STEP_NS; count++) {
		scene_malloc(&scene, 0, 0x1000 * (count + 1), 100, stack);
		scene.now += STEP_NS;
	}
	for (uint64_t i = 0; i < count; i++)
		scene_free(&scene, 0, 0x1000 * (i + 1), 100);
	scene.now += 10000000000;
	analysis = scene_analyze(&scene);
	query_init(&query);
	query.to = "+50s";
	ck_no_err(view_create(analysis, &query, true, &view));
	ck_no_err(suspects_find(view, &suspects));
	ck_assert_uint_eq(suspects.count, 1);
	ck_assert_uint_eq(suspects.growing, 0);
	ck_assert_int_eq(suspects.entry[0].suspect.class, SUSPECT_UNCLEAR);
	ck_assert_ptr_nonnull(strstr(suspects.entry[0].suspect.text, "freed after this part"));
	end();
}

/* One site allocates from 5 s to 25 s, another one works until 90 s; the window has 100 s. */
HT_TEST(a_program_that_waits_at_the_end)
{
	struct query query;
	scene_init(&scene);
	tracebuild_module(&scene.trace, 1, "/bin/app", NULL, 0x400000, 0x500000);
	const uint32_t stays = tracebuild_node(&scene.trace, 0, 0x400010);
	const uint32_t works = tracebuild_node(&scene.trace, 0, 0x400020);
	for (uint64_t i = 0; i < 90000000000 / STEP_NS; i++) {
		if (i >= 5000000000 / STEP_NS && i < 25000000000 / STEP_NS)
			scene_malloc(&scene, 0, 0x1000 * (i + 1), 100, stays);
		scene_malloc(&scene, 0, 0x9000000, 100, works);
		scene_free(&scene, 0, 0x9000000, 100);
		scene.now += STEP_NS;
	}
	scene.now += 10000000000;
	analysis = scene_analyze(&scene);
	query_init(&query);
	ck_no_err(view_create(analysis, &query, true, &view));
	ck_no_err(suspects_find(view, &suspects));
	ck_assert_uint_eq(suspects.count, 1);
	const struct suspect *suspect = &suspects.entry[0].suspect;
	ck_assert_double_eq_tol((double)suspect->oldest_ns / 1e9, 95, 0.3);
	ck_assert_msg(strstr(suspect->text, "Stopped growing 75 s before the end") ||
			      strstr(suspect->text, "Stopped growing 1 min 15 s before the end"),
		"%s", suspect->text);
	end();
}

HT_TEST(nothing_recorded_has_no_suspects)
{
	scene_init(&scene);
	analysis = scene_analyze(&scene);
	view = scene_view_of_all(analysis, false);
	ck_no_err(suspects_find(view, &suspects));
	ck_assert_uint_eq(suspects.count, 0);
	end();
}

/* --- sites: chains that read alike -------------------------------------------------------------
 */

static uint32_t node(uint32_t parent, uint32_t place, const char *name)
{
	tracebuild_symbol(&scene.trace, 1, 0x10 * place - 1, name, "x.c", place);
	return tracebuild_node(&scene.trace, parent, 0x400000 + 0x10 * place);
}

/* Adds a function of a script, whose file is the program's or one of the runtime's own. */
static uint32_t script(uint32_t parent, uint32_t place, const char *name, const char *file)
{
	tracebuild_symbol(&scene.trace, 0, 0x10 * place - 1, name, file, place);
	return tracebuild_node(&scene.trace, parent, 0x10 * place);
}

/* Makes a minute in which stack k keeps 100 (k + 1) bytes in each step. */
static void leak(const uint32_t *stack, size_t count)
{
	uint64_t addr = 0x1000;
	for (uint64_t i = 0; i < 60000000000 / STEP_NS; i++) {
		for (size_t k = 0; k < count; k++, addr += 0x1000)
			scene_malloc(&scene, 0, addr, 100 * (k + 1), stack[k]);
		scene.now += STEP_NS;
	}
	analysis = scene_analyze(&scene);
	view = scene_view_of_all(analysis, false);
	ck_no_err(suspects_find(view, &suspects));
}

static void begin_sites(void)
{
	scene_init(&scene);
	tracebuild_module(
		&scene.trace, 1, "/usr/bin/x", "12345678901234567890", 0x400000, 0x500000);
}

HT_TEST(chains_with_one_caller_are_one_site)
{
	begin_sites();
	const uint32_t one = node(0, 1, "one"), two = node(0, 2, "two");
	/* "add" calls itself in the second: it is the same function, called by the same. */
	const uint32_t stack[] = {node(node(one, 3, "serve"), 4, "add"),
		node(node(node(two, 3, "serve"), 5, "add"), 4, "add"),
		node(node(two, 6, "load"), 4, "add")};
	leak(stack, HT_ARRAY_SIZE(stack));
	ck_assert_uint_eq(suspects.count, 2);
	for (size_t i = 0; i < suspects.count; i++) {
		const struct suspects_entry *site = suspects.entry;
		const bool is_load = site[i].chains == 1;
		ck_assert_int_ne(site[i].suspect.class, SUSPECT_CHURN);
		ck_assert_uint_eq(site[i].chains, is_load ? 1 : 2);
		ck_assert_uint_eq(sums_outstanding_bytes(&site[i].sums), 360000);
		ck_assert_uint_eq(sums_outstanding_blocks(&site[i].sums), is_load ? 1200 : 2400);
		ck_assert_double_eq_tol(site[i].suspect.slope_bytes_per_s, 6000, 300);
	}
	end();
}

HT_TEST(a_script_tells_sites_apart)
{
	begin_sites();
	const uint32_t timers = script(0, 1, "listOnTimeout", "node:internal/timers");
	const uint32_t keep = script(timers, 2, "keep", "/srv/a.js");
	const uint32_t drop = script(timers, 3, "drop", "/srv/a.js");
	/* Different functions lie between the script and the allocation. */
	const uint32_t stack[] = {node(node(keep, 4, "grow"), 5, "allocate"),
		node(node(keep, 6, "copy"), 5, "allocate"),
		node(node(drop, 4, "grow"), 5, "allocate"), node(timers, 5, "allocate")};
	leak(stack, HT_ARRAY_SIZE(stack));
	ck_assert_uint_eq(suspects.growing, 3);
	size_t chains = 0;
	for (size_t i = 0; i < suspects.growing; i++)
		chains += suspects.entry[i].chains;
	ck_assert_uint_eq(chains, 4);
	ck_assert_uint_eq(suspects.entry[0].chains, 1);
	ck_assert_uint_eq(sums_outstanding_bytes(&suspects.entry[0].sums), 480000);
	end();
}

/* A library that calls back does not count as the caller, and the ways through it do not tell sites
 * apart. */
HT_TEST(a_library_that_calls_back_is_passed_over)
{
	static const char each[] = "std::for_each<int*>(int*, int*)";
	struct callers_key *key;
	begin_sites();
	const uint32_t serve = node(0, 1, "serve");
	const uint32_t stack[] = {node(node(serve, 3, each), 4, "add"),
		node(node(node(serve, 5, "std::sort<int*>(int*, int*)"), 3, each), 4, "add"),
		/* "add" calls itself through the library, and is called by nothing else. */
		node(node(node(serve, 4, "add"), 3, each), 4, "add"),
		node(node(0, 3, each), 6, "first")};
	leak(stack, HT_ARRAY_SIZE(stack));
	ck_assert_uint_eq(suspects.count, 2);
	ck_no_err(callers_keys(view, &key));
	for (size_t i = 0; i < suspects.count; i++) {
		const uint32_t at = view->row[suspects.entry[i].row].node;
		const struct frame *caller = callers_frame(view, callers_next(view, at));
		const bool is_add = !strcmp(callers_frame(view, at)->function, "add");
		ck_assert_uint_eq(suspects.entry[i].chains, is_add ? 3 : 1);
		/* A library at the root of a chain is left out. */
		ck_assert(is_add ? !strcmp(caller->function, "serve") : !caller);
	}
	for (uint32_t at = 1; at < view->tree.count; at++) {
		const uint32_t next = callers_next(view, at);
		ck_assert_ptr_eq(
			key[at].function, next ? callers_frame(view, next)->function : NULL);
	}
	free(key);
	end();
}

/* Makes a minute in which `first` allocates for 10 s and `second` then for 50 s, or, `at_once`,
 * both all the time. */
static void leak_by_turns(uint32_t first, uint32_t second, bool at_once)
{
	for (uint64_t i = 0; i < 60000000000 / STEP_NS; i++) {
		const bool is_first = at_once ? i % 6 == 0 : i < 10000000000 / STEP_NS;
		scene_malloc(&scene, 0, 0x1000 * (i + 1), 100, is_first ? first : second);
		scene.now += STEP_NS;
	}
	analysis = scene_analyze(&scene);
	view = scene_view_of_all(analysis, false);
	ck_no_err(suspects_find(view, &suspects));
}

/* V8's optimiser inlines "keep" into "add", and "add" into "serve". The chains before and after
 * that are one site, unless both occur at the same time. */
HT_TEST(a_function_that_was_inlined_is_its_caller)
{
	for (unsigned i = 0; i < 4; i++) {
		const bool at_once = i & 1, is_deep = i & 2;
		begin_sites();
		const uint32_t serve = script(0, 1, "serve", "/srv/a.js");
		const uint32_t add = script(serve, 2, "add", "/srv/a.js");
		const uint32_t keep = script(add, 3, "keep", "/srv/a.js");
		/* The chains contain builtins of the runtime between the named functions. */
		const uint32_t before =
			node(node(node(keep, 6, "trampoline"), 4, "grow"), 5, "allocate");
		const uint32_t after = node(node(is_deep ? serve : add, 4, "grow"), 5, "allocate");
		leak_by_turns(before, after, at_once);
		ck_assert_uint_eq(suspects.count, at_once ? 2 : 1);
		if (!at_once) {
			ck_assert_uint_eq(suspects.entry[0].chains, 2);
			ck_assert_uint_eq(sums_outstanding_blocks(&suspects.entry[0].sums), 1200);
			ck_assert_int_eq(suspects.entry[0].suspect.class, SUSPECT_GROWING);
			ck_assert_uint_eq(view->row[suspects.entry[0].row].sums.allocations, 1000);
		}
		end();
	}
}

/* An evaluator calls itself: each chain to "value" has only a few blocks. */
HT_TEST(a_leak_over_many_chains_is_one_site)
{
	enum suspect_class *class;
	uint32_t stack[400];
	begin_sites();
	uint32_t at = node(0, 1, "main");
	for (uint32_t i = 0; i < HT_ARRAY_SIZE(stack); i++) {
		at = node(at, i % 2 ? 2 : 3, i % 2 ? "eval" : "apply");
		stack[i] = node(node(at, 2, "eval"), 4, "value");
	}
	for (uint64_t i = 0; i < 60000000000 / STEP_NS; i++) {
		scene_malloc(
			&scene, 0, 0x1000 * (i + 1), 64, stack[i * 7919 % HT_ARRAY_SIZE(stack)]);
		scene.now += STEP_NS;
	}
	analysis = scene_analyze(&scene);
	view = scene_view_of_all(analysis, false);
	ck_no_err(suspects_find(view, &suspects));
	ck_assert_str_eq(function_of(0), "value");
	ck_assert_int_eq(suspects.entry[0].suspect.class, SUSPECT_GROWING);
	ck_assert_uint_gt(suspects.entry[0].chains, 100);
	uint64_t blocks = 0;
	for (size_t i = 0; i < suspects.count; i++)
		blocks += sums_outstanding_blocks(&suspects.entry[i].sums);
	ck_assert_uint_eq(blocks, 60000000000 / STEP_NS);
	ck_no_err(suspects_classes(view, &suspects, &class));
	for (uint32_t i = 0; i < suspects.entry[0].chains; i++)
		ck_assert_int_eq(
			class[suspects.member[suspects.entry[0].first + i]], SUSPECT_GROWING);
	free(class);
	end();
}

/* Checks that the two chains are one site, of which only the chain with 300 blocks of 100 B
 * grows. */
static void check_one_growing_chain(uint64_t other_blocks)
{
	enum suspect_class *class;
	const struct suspects_entry *entry = suspects.entry;
	ck_assert_uint_eq(suspects.count, 1);
	ck_assert_uint_eq(suspects.growing, 1);
	ck_assert_int_eq(entry->suspect.class, SUSPECT_GROWING);
	ck_assert_double_eq_tol(entry->suspect.slope_bytes_per_s, 500, 25);
	ck_assert_ptr_nonnull(strstr(entry->suspect.text, " stay. 1 of its 2 chains grows."));
	ck_assert_uint_eq(entry->chains, 2);
	ck_assert_uint_eq(entry->judged, 1);
	ck_assert_uint_eq(entry->judged_bytes, 30000);
	ck_assert_uint_eq(sums_outstanding_blocks(&entry->sums), 300 + other_blocks);
	ck_assert_uint_eq(suspects.member[entry->first], entry->row);
	ck_assert_uint_eq(sums_outstanding_blocks(&view->row[entry->row].sums), 300);
	ck_no_err(suspects_classes(view, &suspects, &class));
	ck_assert_int_eq(class[entry->row], SUSPECT_GROWING);
	const uint32_t other = suspects.member[entry->first + 1];
	ck_assert_int_ne(class[other], SUSPECT_GROWING);
	ck_assert_int_ne(class[other], SUSPECT_CLASS_COUNT);
	free(class);
}

HT_TEST(a_leak_does_not_hide_behind_other_chains)
{
	begin_sites();
	const uint32_t keep = node(node(node(0, 1, "keep"), 3, "copy"), 4, "allocate");
	const uint32_t pass = node(node(node(0, 2, "pass"), 3, "copy"), 4, "allocate");
	for (uint64_t i = 0; i < 60000000000 / STEP_NS; i++) {
		if (i % 4 == 0)
			scene_malloc(&scene, 0, 0x10000000 + 0x1000 * i, 100, keep);
		/* "pass" allocates in batches that take 25 s each. */
		const uint64_t held = i % 500;
		for (uint64_t k = 0; k < 40; k++)
			scene_malloc(&scene, 0, 0x30000000 + 0x1000 * (40 * held + k), 100, pass);
		for (uint64_t k = 0; k < 40 * 500 && held == 499; k++)
			scene_free(&scene, 0, 0x30000000 + 0x1000 * k, 0);
		scene.now += STEP_NS;
	}
	analysis = scene_analyze(&scene);
	view = scene_view_of_all(analysis, false);
	ck_no_err(suspects_find(view, &suspects));
	check_one_growing_chain(40 * 200);
	end();
}

/* The other chain is a cache that filled in the first second. Both chains together would grow. */
HT_TEST(a_leak_beside_a_cache_of_the_same_function)
{
	begin_sites();
	const uint32_t keep = node(node(node(0, 1, "keep"), 3, "copy"), 4, "allocate");
	const uint32_t fill = node(node(node(0, 2, "fill"), 3, "copy"), 4, "allocate");
	for (uint64_t i = 0; i < 60000000000 / STEP_NS; i++) {
		if (i % 4 == 0)
			scene_malloc(&scene, 0, 0x10000000 + 0x1000 * i, 100, keep);
		if (i < 16)
			scene_malloc(&scene, 0, 0x20000000 + 0x1000 * i, 1000, fill);
		scene.now += STEP_NS;
	}
	analysis = scene_analyze(&scene);
	view = scene_view_of_all(analysis, false);
	ck_no_err(suspects_find(view, &suspects));
	check_one_growing_chain(16);
	end();
}

#define LIFE_STEPS 800u /* 40 s */

/* Makes a minute of one stack, as an interpreter has: blocks of 3,000 B live for 40 s, and so does
 * a block of 1,500 B each `every` steps; if it `leaks`, it is never freed. */
static void make_sizes(uint64_t every, bool leaks)
{
	begin_sites();
	const uint32_t stack = node(node(0, 1, "eval"), 2, "allocate");
	for (uint64_t i = 0; i < 60000000000 / STEP_NS; i++) {
		const uint64_t large = 0x30000000 + 0x10000 * (i % LIFE_STEPS);
		const uint64_t small = 0x10000000 + 0x1000 * i;
		for (uint64_t k = 0; k < 10; k++) {
			if (i >= LIFE_STEPS)
				scene_free(&scene, 0, large + 0x1000 * k, 0);
			scene_malloc(&scene, 0, large + 0x1000 * k, 3000, stack);
		}
		if (i % every == 0)
			scene_malloc(&scene, 0, small, 1500, stack);
		if (i % every == 0 && i >= LIFE_STEPS && !leaks)
			scene_free(&scene, 0, small - 0x1000 * LIFE_STEPS, 0);
		scene.now += STEP_NS;
	}
	analysis = scene_analyze(&scene);
	view = scene_view_of_all(analysis, false);
	ck_no_err(suspects_find(view, &suspects));
	ck_assert_uint_eq(suspects.count, 1);
}

HT_TEST(a_leak_does_not_hide_behind_other_sizes)
{
	make_sizes(4, true);
	const struct suspects_entry *entry = suspects.entry;
	ck_assert_int_eq(entry->suspect.class, SUSPECT_GROWING);
	ck_assert_uint_eq(suspects.growing, 1);
	ck_assert_double_eq_tol(entry->suspect.slope_bytes_per_s, 7500, 375);
	ck_assert_ptr_nonnull(
		strstr(entry->suspect.text, " stay. Only its blocks of 1024 to 2047 bytes grow."));
	ck_assert_uint_eq(sums_outstanding_blocks(&entry->sums), 300 + 10 * LIFE_STEPS);
	end();
	make_sizes(4, false);
	ck_assert_int_ne(suspects.entry[0].suspect.class, SUSPECT_GROWING);
	end();
	/* None of these twelve blocks was freed, but then few would have been. */
	make_sizes(100, true);
	ck_assert_int_ne(suspects.entry[0].suspect.class, SUSPECT_GROWING);
	end();
}

/* After 20 s there are a quarter as many requests. The query may choose the leak alone. */
HT_TEST(work_is_that_of_the_whole_program)
{
	for (int is_chosen = 0; is_chosen < 2; is_chosen++) {
		struct query query;
		begin_sites();
		const uint32_t leak_node = node(0, 1, "leak"), work = node(0, 2, "answer");
		for (uint64_t i = 0; i < 60000000000 / STEP_NS; i++) {
			const uint64_t requests = i < 400 ? 8 : 2;
			for (uint64_t k = 0; k < requests; k++)
				scene_malloc(&scene, 0, 0x10000000 + 0x10000 * i + 0x1000 * k, 100,
					leak_node);
			for (uint64_t k = 0; k < 15 * requests; k++) {
				scene_malloc(&scene, 0, 0x1000, 300, work);
				scene_free(&scene, 0, 0x1000, 0);
			}
			scene.now += STEP_NS;
		}
		analysis = scene_analyze(&scene);
		query_init(&query);
		if (is_chosen)
			ck_no_err(query_add(&query.functions, "--function", "leak"));
		ck_no_err(view_create(analysis, &query, true, &view));
		ck_no_err(suspects_find(view, &suspects));
		ck_assert_str_eq(function_of(0), "leak");
		ck_assert_int_eq(suspects.entry[0].suspect.class, SUSPECT_GROWING);
		end();
	}
}

/* A plugin is opened, used and closed several times, each time at another address. */
HT_TEST(a_library_that_comes_back_is_one_module)
{
	uint32_t at[3];
	scene_init(&scene);
	for (uint32_t i = 0; i < HT_ARRAY_SIZE(at); i++) {
		const uint64_t base = 0x400000 + 0x100000 * i;
		tracebuild_module(&scene.trace, i + 1, i < 2 ? "/opt/plugin.so" : "/opt/other.so",
			i < 2 ? "12345678901234567890" : "22345678901234567890", base,
			base + 0x100000);
		tracebuild_symbol(&scene.trace, i + 1, 0xff, "load", NULL, 0);
		at[i] = tracebuild_node(&scene.trace, 0, base + 0x100);
		scene_malloc(&scene, 0, 0x1000 * (i + 1), 100, at[i]);
	}
	analysis = scene_analyze(&scene);
	view = scene_view_of_all(analysis, false);
	ck_assert_uint_eq(view->row_count, 2);
	end();
}

HT_SUITE("analyzer/suspects")
