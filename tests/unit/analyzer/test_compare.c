/* SPDX-License-Identifier: Apache-2.0
 *
 * Traces side by side: what counts as the same site, and what as a change.
 */
#include "analyzer/views/compare.h"

#include <math.h>

#include "tests/unit/analyzer/sides.h"

#define LO_OLD 0x400000u
#define LO_NEW 0x7f1200000000u

static struct side side[3];
static const struct view *view[3];
static struct compare compare;

static void begin(void)
{
	side_begin(&side[0], LO_OLD, 0, "/src");
	side_begin(&side[1], LO_NEW, 0x5000, "/build/42");
}

static void put_together(uint64_t old_s, uint64_t new_s)
{
	side_end(&side[0], old_s);
	side_end(&side[1], new_s);
	view[0] = side[0].view;
	view[1] = side[1].view;
	ck_no_err(compare_init(&compare, view, 2));
	compare_sort(&compare, METRIC_OUTSTANDING);
}

static void end(void)
{
	compare_deinit(&compare);
	side_deinit(&side[0]);
	side_deinit(&side[1]);
}

static const char *name_of(const struct compare_entry *entry)
{
	const struct view *of = view[entry->view];
	const uint32_t group = of->tree.node[of->row[entry->row].node].group;
	return of->frames.frame[of->groups.group[group].frame].function;
}

static enum compare_change change_of(const char *function, enum metric metric)
{
	const struct compare_entry *found = NULL;
	for (size_t i = 0; i < compare.count; i++)
		if (strcmp(name_of(&compare.entry[i]), function) == 0) {
			ck_assert_msg(!found, "%s stands twice", function);
			found = &compare.entry[i];
		}
	ck_assert_msg(found, "there is no %s", function);
	return compare_change_of(&compare, found, metric);
}

static void check_change(const char *function, enum compare_change want)
{
	const enum compare_change found = change_of(function, METRIC_OUTSTANDING);
	ck_assert_msg(found == want, "%s: %s, not %s", function, compare_change_name(found),
		compare_change_name(want));
}

/* --- the same site -----------------------------------------------------------------------------
 */

/* The program was rebuilt in another directory and is loaded at another address; its lines have
 * moved, and its sites come in another order. */
HT_TEST(a_rebuilt_program_has_the_same_sites)
{
	begin();
	uint32_t main_node = side_frame(&side[0], 0, "main", "main.c", 10);
	uint32_t one = side_frame(&side[0], main_node, "one", "one.c", 20);
	uint32_t two = side_frame(&side[0], main_node, "two", "two.c", 30);
	side_alloc(&side[0], 1, 1000, one);
	side_alloc(&side[0], 2, 2000, two);
	main_node = side_frame(&side[1], 0, "main", "main.c", 14);
	two = side_frame(&side[1], main_node, "two", "two.c", 37);
	one = side_frame(&side[1], main_node, "one", "one.c", 21);
	side_alloc(&side[1], 1, 2000, two);
	side_alloc(&side[1], 2, 1000, one);
	put_together(1, 1);
	ck_assert_uint_eq(compare.count, 2);
	check_change("one", COMPARE_SAME);
	check_change("two", COMPARE_SAME);
	end();
}

HT_TEST(calls_on_several_lines_of_a_function_are_one_site)
{
	begin();
	for (uint32_t line = 1; line <= 3; line++)
		side_alloc(&side[0], 1, 1000, side_frame(&side[0], 0, "f", "f.c", line));
	side_alloc(&side[1], 1, 3000, side_frame(&side[1], 0, "f", "f.c", 9));
	put_together(1, 1);
	ck_assert_uint_eq(compare.count, 1);
	ck_assert_int_eq(compare_sums(&compare, &compare.entry[0], 0)->live_bytes, 3000);
	check_change("f", COMPARE_SAME);
	end();
}

HT_TEST(functions_of_other_files_and_callers_are_other_sites)
{
	begin();
	uint32_t a = side_frame(&side[0], 0, "a", "x.c", 1);
	side_alloc(&side[0], 1, 1000, side_frame(&side[0], a, "f", "f.c", 1));
	uint32_t b = side_frame(&side[1], 0, "b", "x.c", 1);
	side_alloc(&side[1], 1, 1000, side_frame(&side[1], b, "f", "f.c", 1));
	a = side_frame(&side[1], 0, "a", "x.c", 1);
	side_alloc(&side[1], 1, 1000, side_frame(&side[1], a, "f", "g.c", 1));
	put_together(1, 1);
	ck_assert_uint_eq(compare.count, 3);
	end();
}

/* Functions without names match by their places in the module. */
HT_TEST(functions_without_names_match_in_one_build)
{
	side_begin(&side[0], LO_OLD, 0, "/bin");
	side_begin(&side[1], LO_NEW, 0, "/opt/bin");
	for (unsigned i = 0; i < 2; i++) {
		side_alloc(&side[i], 1, 1000, side_frame(&side[i], 0, NULL, NULL, 0));
		side_alloc(&side[i], 1, 1000, side_frame(&side[i], 0, NULL, NULL, 0));
	}
	put_together(1, 1);
	ck_assert_uint_eq(compare.count, 2);
	for (size_t i = 0; i < compare.count; i++)
		ck_assert_int_eq(
			compare_change_of(&compare, &compare.entry[i], METRIC_CALLS), COMPARE_SAME);
	end();
}

/* --- a change ----------------------------------------------------------------------------------
 */

static void alloc_in(unsigned index, const char *function, uint64_t bytes)
{
	if (bytes)
		side_alloc(&side[index], 1, bytes, side_frame(&side[index], 0, function, "f.c", 1));
}

HT_TEST(every_change_has_its_class)
{
	static const struct {
		const char *function;
		uint64_t before, after;
		enum compare_change want;
	} cases[] = {
		{"appears", 0, 5000, COMPARE_NEW}, {"grows", 10000, 11100, COMPARE_GROWN},
		{"doubles", 10000, 20000, COMPARE_GROWN}, {"wobbles", 10000, 10900, COMPARE_SAME},
		{"stays", 10000, 10000, COMPARE_SAME}, {"dips", 10900, 10000, COMPARE_SAME},
		{"shrinks", 11100, 10000, COMPARE_SHRUNK}, {"vanishes", 5000, 0, COMPARE_GONE},
		{"tiny", 0, 100, COMPARE_SAME}, /* less than a thousandth of all */
	};
	begin();
	for (size_t i = 0; i < HT_ARRAY_SIZE(cases); i++) {
		alloc_in(0, cases[i].function, cases[i].before);
		alloc_in(1, cases[i].function, cases[i].after);
	}
	put_together(10, 10);
	ck_assert_uint_eq(compare.count, HT_ARRAY_SIZE(cases));
	for (size_t i = 0; i < HT_ARRAY_SIZE(cases); i++)
		check_change(cases[i].function, cases[i].want);
	ck_assert_str_eq(name_of(&compare.entry[0]), "doubles");
	ck_assert_str_eq(name_of(&compare.entry[1]), "appears");
	ck_assert_str_eq(name_of(&compare.entry[2]), "grows");
	ck_assert_str_eq(name_of(&compare.entry[compare.count - 2]), "shrinks");
	ck_assert_str_eq(name_of(&compare.entry[compare.count - 1]), "vanishes");
	end();
}

/* --- windows of different lengths --------------------------------------------------------------
 */

/* A leak of `leak_bytes` each tenth of a second, a cache that is full after two seconds, and a
 * buffer that is replaced each time, so that one is live. */
static void make_program(unsigned index, uint64_t seconds, unsigned leak_bytes)
{
	struct side *at = &side[index];
	uint32_t leak = side_frame(at, 0, "leak", "f.c", 1);
	uint32_t cache = side_frame(at, 0, "cache", "f.c", 2);
	uint32_t buffer = side_frame(at, 0, "buffer", "f.c", 3);
	uint64_t last = 0;
	for (uint64_t ms = 50; ms < seconds * 1000; ms += 100) {
		if (leak_bytes)
			side_alloc(at, ms, leak_bytes, leak);
		if (ms < 2000)
			side_alloc(at, ms, 50000, cache);
		const uint64_t next = side_alloc(at, ms, 20000, buffer);
		if (last)
			scene_free(&at->scene, 0, last, 0);
		last = next;
	}
}

static void check_program(uint64_t old_s, uint64_t new_s, unsigned leak_old, unsigned leak_new,
	enum compare_change want)
{
	begin();
	make_program(0, old_s, leak_old);
	make_program(1, new_s, leak_new);
	put_together(old_s, new_s);
	check_change("leak", want);
	check_change("cache", COMPARE_SAME);
	check_change("buffer", COMPARE_SAME);
	ck_assert_int_eq(change_of("buffer", METRIC_CALLS), COMPARE_SAME);
	ck_assert_int_eq(change_of("buffer", METRIC_ALLOCATED), COMPARE_SAME);
	if (want == COMPARE_GROWN || want == COMPARE_NEW)
		ck_assert_str_eq(name_of(&compare.entry[0]), "leak");
	end();
}

HT_TEST(a_longer_window_is_no_change)
{
	check_program(10, 10, 1000, 1000, COMPARE_SAME);
	check_program(10, 40, 1000, 1000, COMPARE_SAME);
	check_program(40, 10, 1000, 1000, COMPARE_SAME);
}

HT_TEST(a_leak_is_found_whichever_window_is_longer)
{
	check_program(10, 40, 0, 1000, COMPARE_NEW);
	check_program(40, 10, 0, 1000, COMPARE_NEW);
	check_program(10, 40, 1000, 2000, COMPARE_GROWN);
	check_program(40, 10, 1000, 2000, COMPARE_GROWN);
	check_program(40, 10, 2000, 1000, COMPARE_SHRUNK);
	check_program(10, 40, 1000, 0, COMPARE_GONE);
}

/* The first 10 s of both windows are the same. */
HT_TEST(a_leak_that_begins_late_is_found)
{
	begin();
	make_program(0, 10, 0);
	make_program(1, 10, 0);
	uint32_t late = side_frame(&side[1], 0, "late", "f.c", 4);
	for (uint64_t ms = 20000; ms < 40000; ms += 100)
		side_alloc(&side[1], ms, 5000, late);
	put_together(10, 40);
	check_change("late", COMPARE_NEW);
	check_change("cache", COMPARE_SAME);
	end();
}

HT_TEST(figures_are_per_minute)
{
	begin();
	alloc_in(0, "f", 1000);
	alloc_in(1, "f", 1000);
	put_together(10, 30);
	const struct compare_entry *entry = &compare.entry[0];
	ck_assert_double_eq_tol(compare_rate(&compare, entry, 0, METRIC_ALLOCATED), 6000, 0.1);
	ck_assert_double_eq_tol(compare_rate(&compare, entry, 1, METRIC_ALLOCATED), 2000, 0.1);
	ck_assert_double_eq_tol(compare_rate(&compare, NULL, 1, METRIC_CALLS), 2, 0.001);
	ck_assert_double_eq_tol(compare_rate(&compare, entry, 0, METRIC_LIVE), 1000, 0.1);
	ck_assert_double_eq_tol(compare_rate(&compare, entry, 0, METRIC_PEAK), 1000, 0.1);
	ck_assert_int_eq(change_of("f", METRIC_ALLOCATED), COMPARE_SHRUNK);
	ck_assert_int_eq(change_of("f", METRIC_PEAK), COMPARE_SAME);
	end();
}

HT_TEST(three_traces_are_compared_by_the_first_and_the_last)
{
	begin();
	side_begin(&side[2], LO_OLD, 0, "/src");
	alloc_in(0, "f", 1000);
	alloc_in(1, "f", 9000);
	alloc_in(1, "middle", 9000);
	alloc_in(2, "f", 1000);
	for (unsigned i = 0; i < 3; i++) {
		side_end(&side[i], 10);
		view[i] = side[i].view;
	}
	ck_no_err(compare_init(&compare, view, 3));
	check_change("f", COMPARE_SAME);
	check_change("middle", COMPARE_SAME);
	ck_assert_int_eq(compare_sums(&compare, &compare.entry[0], 1)->live_bytes, 9000);
	end();
	side_deinit(&side[2]);
}

/* --- bounds of samples -------------------------------------------------------------------------
 */

/*
 * A block of 4095 bytes in a sample of one in 4096: p = 1 - 1/e, weight w = 1.581977, so that it
 * counts for 6478 bytes, with a variance of (w 4095)^2 / e = 15,438,798.5. The bound of n blocks is
 * 1.959964 sqrt(n 15438798.5 (1 + 2 n 15438798.5 / (n 6478)^2)): 16,759 for 4, 24,029 for 9.
 */
#define RATE	 4096u
#define SIZE	 4095u
#define BOUND_4	 16759.0
#define BOUND_9	 24029.0
#define VARIANCE 15438798.5

static void put_samples(uint32_t old_blocks, uint64_t old_rate, uint32_t new_blocks)
{
	side_begin_sample(&side[0], LO_OLD, 0, "/src", old_rate);
	side_begin_sample(&side[1], LO_NEW, 0, "/src", RATE);
	const uint32_t blocks[] = {old_blocks, new_blocks};
	for (unsigned i = 0; i < 2; i++) {
		const uint32_t node = side_frame(&side[i], 0, "grow", "a.c", 1);
		for (uint32_t k = 0; k < blocks[i]; k++)
			side_alloc(&side[i], 1, SIZE, node);
	}
}

/* 4 blocks in one minute, 9 in two: the second bound is halved, as the figure by minute is. */
HT_TEST(bounds_are_those_of_both_samples)
{
	const double difference = sqrt(BOUND_4 * BOUND_4 + BOUND_9 * BOUND_9 / 4);
	put_samples(4, RATE, 9);
	put_together(60, 120);
	ck_assert(compare_is_sample(&compare));
	ck_assert_uint_eq(compare.count, 1);
	const struct compare_entry *entry = &compare.entry[0];
	const double old = compare_bound(&compare, entry, 0, METRIC_ALLOCATED);
	const double new = compare_bound(&compare, entry, 1, METRIC_ALLOCATED);
	ck_assert_double_eq_tol(old, BOUND_4, 0.6);
	ck_assert_double_eq_tol(new, BOUND_9 / 2, 0.6);
	ck_assert_double_eq_tol(compare_difference_bound(old, new), difference, 1);
	ck_assert_double_eq_tol(
		compare_bound(&compare, NULL, 1, METRIC_ALLOCATED), BOUND_9 / 2, 0.6);
	/* Live bytes are a level, so they are not divided by minutes. */
	ck_assert_double_eq_tol(compare_bound(&compare, entry, 1, METRIC_LIVE), BOUND_9, 1);
	ck_assert_double_eq_tol(
		compare_variance(&compare, entry, 1, METRIC_ALLOCATED), 9 * VARIANCE / 4, 100);
	ck_assert_double_eq_tol(
		compare_variance(&compare, NULL, 0, METRIC_LIVE), 4 * VARIANCE, 100);
	ck_assert_double_eq(compare_bound(&compare, entry, 1, METRIC_LIFETIME), 0);
	end();
}

static enum compare_change change_of_samples(uint32_t old_blocks, uint32_t new_blocks)
{
	put_samples(old_blocks, RATE, new_blocks);
	put_together(60, 60);
	const enum compare_change change =
		compare_change_of(&compare, &compare.entry[0], METRIC_ALLOCATED);
	ck_assert_int_eq(change, compare_change_of(&compare, NULL, METRIC_ALLOCATED));
	end();
	return change;
}

/* From 4 to 8 blocks are 25,912 bytes more, with a bound of 28,265; to 9, 32,390 and 29,296. */
HT_TEST(a_change_within_its_bound_is_none)
{
	ck_assert_int_eq(change_of_samples(4, 8), COMPARE_SAME);
	ck_assert_int_eq(change_of_samples(4, 9), COMPARE_GROWN);
	ck_assert_int_eq(change_of_samples(8, 4), COMPARE_SAME);
	ck_assert_int_eq(change_of_samples(9, 4), COMPARE_SHRUNK);
}

/* An unsampled trace adds no error: the difference has the sample's bound. */
HT_TEST(a_whole_trace_has_no_bound)
{
	put_samples(4, 0, 9);
	put_together(60, 60);
	const struct compare_entry *entry = &compare.entry[0];
	ck_assert(compare_is_sample(&compare));
	ck_assert_double_eq(compare_bound(&compare, entry, 0, METRIC_ALLOCATED), 0);
	ck_assert_double_eq(compare_bound(&compare, NULL, 0, METRIC_ALLOCATED), 0);
	ck_assert_double_eq_tol(
		compare_difference_bound(0, compare_bound(&compare, entry, 1, METRIC_ALLOCATED)),
		BOUND_9, 0.6);
	end();
	begin();
	put_together(60, 60);
	ck_assert(!compare_is_sample(&compare));
	end();
}

HT_SUITE("analyzer/compare")
