/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks by who allocated: what is passed over, what is summed up, and that nothing is lost by it.
 */
#include "analyzer/views/sites.h"

#include "tests/unit/analyzer/scene.h"

#define LO 0x400000u

static struct scene scene;
static struct analysis *analysis;
static struct sites sites;
static uint32_t node_count;

static void begin(void)
{
	scene_init(&scene);
	tracebuild_module(&scene.trace, 1, "/usr/bin/x", "12345678901234567890", LO, LO + 0x100000);
	node_count = 0;
}

static void finish(bool shows_wrappers)
{
	analysis = scene_analyze(&scene);
	ck_no_err(sites_init(&sites, analysis, shows_wrappers));
}

static void end(void)
{
	sites_deinit(&sites);
	analysis_destroy(analysis);
	scene_deinit(&scene);
}

/* A node below `parent` whose place has these frames, innermost first; "" for an unknown one. */
static uint32_t node(uint32_t parent, const char *inner, const char *outer)
{
	uint64_t pc = LO + 0x10 * ++node_count;
	struct rec symbol = {.kind = REC_SYMBOL, .symbol = {.module_id = 1, .offset = pc - 1 - LO}};
	const char *const name[] = {inner, outer};
	for (size_t i = 0; i < 2 && name[i]; i++)
		symbol.symbol.frame[symbol.symbol.frame_count++].function =
			(struct rec_string){name[i], strlen(name[i])};
	if (inner)
		tracebuild_put(&scene.trace, &symbol);
	return tracebuild_node(&scene.trace, parent, pc);
}

static void check(uint32_t leaf, uint32_t want, uint32_t skip, uint32_t wrappers)
{
	struct site site;
	ck_no_err(sites_find(&sites, leaf, &site));
	ck_assert_uint_eq(site.node, want);
	ck_assert_uint_eq(site.skip, skip);
	ck_assert_uint_eq(site.wrappers, wrappers);
}

START_TEST(wrappers_are_passed_over)
{
	begin();
	uint32_t main_node = node(0, "main", NULL);
	uint32_t user = node(main_node, "alloc::vec::Vec<T>::push", "app::add");
	uint32_t whole = node(user, "alloc::alloc::alloc", "alloc::raw_vec::finish_grow");
	uint32_t leaf = node(whole, "__rust_alloc", NULL);
	uint32_t nameless = node(user, NULL, NULL);
	uint32_t above = node(nameless, "alloc::alloc::alloc", NULL);
	uint32_t between = node(main_node, "app::f", "alloc::vec::Vec<T>::map");
	finish(false);
	for (unsigned again = 0; again < 2; again++) {
		check(leaf, user, 1, 4);
		check(whole, user, 1, 3);
		check(user, user, 1, 1);
		check(main_node, main_node, 0, 0);
		check(above, nameless, 0, 1);
		check(nameless, nameless, 0, 0);
		check(between, between, 0, 0);
		check(0, 0, 0, 0);
		check(12345, 12345, 0, 0);
	}
	end();
}
END_TEST

START_TEST(a_chain_of_wrappers_is_shown_as_it_is)
{
	begin();
	uint32_t outer = node(0, "std::f()", NULL);
	uint32_t leaf = node(outer, "operator new(unsigned long)", NULL);
	finish(false);
	check(leaf, leaf, 0, 0);
	check(outer, outer, 0, 0);
	check(leaf, leaf, 0, 0);
	end();
}
END_TEST

START_TEST(wrappers_are_shown_when_wanted)
{
	begin();
	uint32_t user = node(0, "app::add", NULL);
	uint32_t leaf = node(user, "__rust_alloc", NULL);
	scene_malloc(&scene, 0, 0x1000, 10, leaf);
	scene_malloc(&scene, 0, 0x2000, 10, user);
	finish(true);
	check(leaf, leaf, 0, 0);
	ck_assert_uint_eq(sites.stack_count, 2);
	end();
}
END_TEST

/* A node in code that the program made. */
static uint32_t made(uint32_t parent, const char *name, uint64_t line)
{
	uint64_t pc = 0x10 * ++node_count;
	struct rec symbol = {
		.kind = REC_SYMBOL, .symbol = {.offset = pc - 1, .frame_count = name ? 1 : 0}};
	if (name)
		symbol.symbol.frame[0] = (struct rec_frame){
			.function = {name, strlen(name)}, .file = {"a.js", 4}, .line = line};
	tracebuild_put(&scene.trace, &symbol);
	return tracebuild_node(&scene.trace, parent, pc);
}

/* One function of made code, however often it was compiled. */
START_TEST(chains_that_say_the_same_are_one_site)
{
	begin();
	uint32_t top = made(0, "turn", 3), again = made(0, "turn", 3), other = made(0, "turn", 4);
	uint32_t nameless = made(0, NULL, 0), nameless_too = made(0, NULL, 0);
	uint32_t leaf = made(top, "keep", 9), leaf_too = made(again, "keep", 9);
	uint32_t leaf_other = made(other, "keep", 9);
	uint64_t pc = LO + 0x5000;
	uint32_t native = tracebuild_node(&scene.trace, leaf, pc);
	uint32_t native_too = tracebuild_node(&scene.trace, leaf_too, pc);
	uint32_t native_elsewhere = tracebuild_node(&scene.trace, leaf_too, pc + 16);
	scene_malloc(&scene, 0, 0x1000, 10, native);
	scene_malloc(&scene, 0, 0x2000, 20, native_too);
	scene_malloc(&scene, 0, 0x3000, 40, native_elsewhere);
	finish(false);
	check(again, top, 0, 0);
	check(other, other, 0, 0);
	check(leaf_too, leaf, 0, 0);
	check(leaf_other, leaf_other, 0, 0);
	check(native_too, native, 0, 0);
	check(native_elsewhere, native_elsewhere, 0, 0);
	check(nameless_too, nameless_too, 0, 0);
	check(nameless, nameless, 0, 0);
	ck_assert_uint_eq(sites.stack_count, 2);
	ck_assert_uint_eq(sites.stack[0].metrics.allocated_bytes, 30);
	end();
}
END_TEST

static const struct profile_stack *find(uint32_t at)
{
	for (size_t i = 0; i < sites.stack_count; i++)
		if (sites.stack[i].node == at)
			return &sites.stack[i];
	ck_abort_msg("no site %u", at);
}

START_TEST(stacks_of_one_site_are_summed_up)
{
	begin();
	uint32_t user = node(0, "alloc::vec::Vec<T>::push", "app::add");
	uint32_t grow = node(user, "alloc::raw_vec::finish_grow", NULL);
	uint32_t make = node(user, "alloc::alloc::exchange_malloc", NULL);
	uint32_t other = node(0, "app::other", NULL);
	scene_malloc(&scene, 0, 0x1000, 100, grow);
	scene_alloc(&scene, 0, ABI_HOOK_CALLOC, 0x2000, 20, make);
	scene_malloc(&scene, 0, 0x3000, 3, user);
	scene_malloc(&scene, 0, 0x4000, 1000, other);
	scene_free(&scene, 0, 0x4000, 1000);
	scene_free(&scene, 0, 0x2000, 24);
	scene_malloc(&scene, 0, 0x5000, 7, 0);
	finish(false);
	ck_assert_uint_eq(sites.stack_count, 3);
	const struct profile_stack *stack = find(user);
	ck_assert_uint_eq(stack->metrics.allocations, 3);
	ck_assert_uint_eq(stack->metrics.allocated_bytes, 123);
	ck_assert_uint_eq(stack->metrics.frees, 1);
	ck_assert_uint_eq(stack->metrics.freed_bytes, 20);
	ck_assert_uint_eq(stack->peak_bytes, 123);
	ck_assert_uint_eq(stack->calls[ABI_HOOK_MALLOC], 2);
	ck_assert_uint_eq(stack->calls[ABI_HOOK_CALLOC], 1);
	ck_assert_uint_eq(find(other)->metrics.temporary, 1);
	ck_assert_uint_eq(find(0)->metrics.allocations, 1);
	end();
}
END_TEST

START_TEST(sites_sum_up_to_the_totals)
{
	begin();
	uint32_t leaf[40];
	for (uint32_t i = 0; i < HT_ARRAY_SIZE(leaf); i++) {
		uint32_t parent = i % 5 ? leaf[i / 2] : 0;
		leaf[i] = node(parent, i % 3 ? "std::f()" : "app::f", i % 4 ? "core::g" : NULL);
	}
	for (uint32_t i = 0; i < 400; i++)
		scene_malloc(&scene, i % 3, 0x1000 * (i + 1), i + 1, leaf[i % 40]);
	for (uint32_t i = 0; i < 400; i += 7)
		scene_free(&scene, i % 2, 0x1000 * (i + 1), i + 1);
	finish(false);
	struct profile_stack sum = {0};
	for (size_t i = 0; i < sites.stack_count; i++)
		profile_stack_add(&sum, &sites.stack[i]);
	ck_assert_uint_lt(sites.stack_count, analysis->profile.stack_count);
	ck_assert_mem_eq(&sum.metrics, &analysis->profile.total, sizeof(sum.metrics));
	ck_assert_uint_eq(sum.peak_bytes, analysis->profile.peak_bytes);
	end();
}
END_TEST

/* Linear: each node is walked once, however many stacks there are. */
START_TEST(deep_chains_of_wrappers)
{
	begin();
	uint32_t at = node(0, "app::f", NULL);
	uint64_t pc = LO + 0x10 * ++node_count;
	tracebuild_symbol(&scene.trace, 1, pc - 1 - LO, "core::f", NULL, 0);
	uint32_t user = at;
	for (unsigned i = 0; i < 30000; i++) {
		at = tracebuild_node(&scene.trace, at, pc);
		scene_malloc(&scene, 0, 0x1000 + 16 * i, 1, at);
	}
	finish(false);
	ck_assert_uint_eq(sites.stack_count, 1);
	check(at, user, 0, 30000);
	end();
}
END_TEST

HT_SUITE("analyzer/sites", chains_that_say_the_same_are_one_site, wrappers_are_passed_over,
	a_chain_of_wrappers_is_shown_as_it_is, wrappers_are_shown_when_wanted,
	stacks_of_one_site_are_summed_up, sites_sum_up_to_the_totals, deep_chains_of_wrappers)
