/* SPDX-License-Identifier: Apache-2.0
 *
 * Thresholds: how they are written, what exceeds them, and what is only noise.
 */
#include "analyzer/views/limits.h"

#include "tests/support/random.h"
#include "tests/unit/analyzer/sides.h"

static struct side side[2];
static struct limits_result result;

static void end(void)
{
	limits_result_deinit(&result);
	side_deinit(&side[0]);
	if (side[1].view)
		side_deinit(&side[1]);
	side[1] = (struct side){0};
}

/* --- words -------------------------------------------------------------------------------------
 */

HT_TEST(rates)
{
	static const struct {
		const char *text;
		double want; /* bytes per second; below 0: wrong */
	} cases[] = {
		{"1M/s", 1048576},
		{"60k/min", 1024},
		{"60k/m", 1024},
		{"1G/h", 1073741824.0 / 3600},
		{"1G/d", 1073741824.0 / 86400},
		{"0/min", 0},
		{"100/s", 100},
		{"1M", -1},
		{"/min", -1},
		{"M/min", -1},
		{"-1M/min", -1},
		{"1M/", -1},
		{"1M/minute", -1},
		{"1M/min/min", -1},
		{"1M /min", -1},
		{"", -1},
		{"fast", -1},
		{"99999999999999999999999999999999999999999999/s", -1},
		{"99999999T/s", -1},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(cases); i++) {
		double found = -1;
		const char *wrong = limits_parse_rate(cases[i].text, &found);
		ck_assert_msg(!wrong == (cases[i].want >= 0), "%s: %s", cases[i].text, wrong);
		if (!wrong)
			ck_assert_double_eq_tol(found, cases[i].want, 0.001);
	}
}

HT_TEST(shares)
{
	static const struct {
		const char *text;
		double want; /* below 0: wrong */
	} cases[] = {
		{"5%", 0.05},
		{"0%", 0},
		{"0.5%", 0.005},
		{"150%", 1.5},
		{"5", -1},
		{"%", -1},
		{"", -1},
		{"-5%", -1},
		{"+5%", -1},
		{"5%%", -1},
		{"5 %", -1},
		{"0x10%", -1},
		{"1e3%", -1},
		{"1.2.3%", -1},
		{"nan%", -1},
		{"inf%", -1},
		{"99999999%", -1},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(cases); i++) {
		double found = -1;
		const char *wrong = limits_parse_percent(cases[i].text, &found);
		ck_assert_msg(!wrong == (cases[i].want >= 0), "%s: %s", cases[i].text, wrong);
		if (!wrong)
			ck_assert_double_eq_tol(found, cases[i].want, 1e-9);
	}
}

/* --- programs ----------------------------------------------------------------------------------
 */

struct program {
	uint64_t seconds;
	unsigned leak_bytes;  /* that each leaking site allocates in each tenth of a second */
	unsigned sites;	      /* number of leaking sites; 0: one */
	unsigned cache_bytes; /* of a cache that is filled in the first two seconds */
	unsigned level_bytes; /* live on average, of requests that begin and end at random */
	uint64_t random;
	uint64_t sample_bytes; /* records one allocation in so many bytes; 0: each */
};

#define REQUEST_BYTES 20000u
#define REQUESTS_MAX  256u

static void serve(struct side *at, struct program *program, uint64_t ms, uint32_t stack,
	uint64_t held[REQUESTS_MAX])
{
	const unsigned most = 2 * program->level_bytes / REQUEST_BYTES;
	for (unsigned i = 0; i < most; i++) {
		if (random_below(&program->random, 2))
			continue;
		if (held[i]) {
			scene_free(&at->scene, 0, held[i], 0);
			held[i] = 0;
		} else {
			held[i] = side_alloc(at, ms, REQUEST_BYTES, stack);
		}
	}
}

static struct view *run(unsigned index, struct program program)
{
	struct side *at = &side[index];
	uint64_t held[REQUESTS_MAX] = {0};
	uint32_t leak[64];
	char name[16];
	side_begin_sample(at, 0x400000, 0, "/src", program.sample_bytes);
	const unsigned sites = program.sites ? program.sites : 1;
	for (unsigned i = 0; i < sites; i++) {
		snprintf(name, sizeof(name), "leak%u", i);
		leak[i] = side_frame(at, 0, name, "leak.c", i + 1);
	}
	uint32_t cache = side_frame(at, 0, "cache", "cache.c", 1);
	uint32_t request = side_frame(at, 0, "request", "request.c", 1);
	for (uint64_t ms = 50; ms < program.seconds * 1000; ms += 100) {
		for (unsigned i = 0; i < sites && program.leak_bytes; i++)
			side_alloc(at, ms, program.leak_bytes, leak[i]);
		if (program.cache_bytes && ms < 2000)
			side_alloc(at, ms, program.cache_bytes / 20, cache);
		serve(at, &program, ms, request, held);
	}
	side_end(at, program.seconds);
	return at->view;
}

static const char *function_of(uint32_t row)
{
	const struct view *view = side[0].view;
	const uint32_t at = suspects_leaf_frame(view, &view->row[row]);
	return view->frames.frame[at].function;
}

static void check(const struct limits *limits, const struct view *view, const struct view *baseline)
{
	limits_result_deinit(&result);
	ck_no_err(limits_check(limits, view, baseline, &result));
}

HT_TEST(a_leak_exceeds_its_rate)
{
	const struct view *view = run(
		0, (struct program){60, .leak_bytes = 10000, .level_bytes = 400000, .random = 1});
	check(&(struct limits){.has_growth = true, .growth_bytes_per_s = 50000}, view, NULL);
	ck_assert_uint_eq(result.count, 1);
	ck_assert_int_eq(result.violation[0].kind, LIMITS_GROWTH);
	ck_assert_str_eq(function_of(result.violation[0].row), "leak0");
	ck_assert_double_eq_tol(result.violation[0].value, 100000, 5000);
	ck_assert_double_eq_tol(result.violation[0].limit, 50000, 0.1);
	check(&(struct limits){.has_growth = true, .growth_bytes_per_s = 120000}, view, NULL);
	ck_assert_uint_eq(result.count, 0);
	ck_assert_double_eq_tol(result.growth_bytes_per_s, 100000, 5000);
	end();
}

/* No leak alone exceeds the threshold, but all together do. */
HT_TEST(many_slow_leaks_exceed_it_together)
{
	const struct view *view = run(0, (struct program){60, .leak_bytes = 2000, .sites = 10});
	check(&(struct limits){.has_growth = true, .growth_bytes_per_s = 50000}, view, NULL);
	ck_assert_uint_eq(result.count, 1);
	ck_assert_uint_eq(result.violation[0].row, UINT32_MAX);
	ck_assert_double_eq_tol(result.violation[0].value, 200000, 10000);
	end();
}

HT_TEST(what_is_outstanding_for_a_moment_does_not_count)
{
	const struct view *view = run(0,
		(struct program){60, .cache_bytes = 1000000, .level_bytes = 2000000, .random = 3});
	check(&(struct limits){.has_outstanding = true, .outstanding_bytes = 100}, view, NULL);
	ck_assert_uint_eq(result.count, 1);
	ck_assert_int_eq(result.violation[0].kind, LIMITS_OUTSTANDING);
	ck_assert_uint_le(result.outstanding_bytes, sums_outstanding_bytes(&view->total));
	ck_assert_uint_ge(result.outstanding_bytes, 1000000);
	check(&(struct limits){.has_outstanding = true,
		      .outstanding_bytes = result.outstanding_bytes},
		view, NULL);
	ck_assert_uint_eq(result.count, 0);
	end();
}

HT_TEST(an_innocent_program_passes_with_any_seed_and_length)
{
	static const struct limits limits = {.has_growth = true,
		.growth_bytes_per_s = 1000,
		.has_outstanding = true,
		.outstanding_bytes = 8u << 20,
		.has_increase = true,
		.increase = 0.05};
	for (uint64_t i = 0; i < 20; i++) {
		const struct program program = {.cache_bytes = 1000000, .level_bytes = 2000000};
		struct program old = program, new = program;
		old.random = 2 * i + 1;
		new.random = 2 * i + 2;
		old.seconds = 20 + i % 3 * 20;
		new.seconds = 20 + i % 4 * 15;
		run(0, new);
		run(1, old);
		check(&limits, side[0].view, side[1].view);
		ck_assert_msg(result.count == 0, "%lu: kind %d, %f against %f", i,
			result.violation[0].kind, result.violation[0].value,
			result.violation[0].limit);
		end();
	}
}

/* A sample's figures are estimates. One that exceeds a threshold by less than its bound is not a
 * violation. */
HT_TEST(an_estimate_exceeds_by_more_than_its_bound)
{
	const struct view *view = run(
		0, (struct program){60, .leak_bytes = 10000, .random = 1, .sample_bytes = 32768});
	check(&(struct limits){0}, view, NULL);
	const double bytes = (double)result.outstanding_bytes,
		     bytes_bound = result.outstanding_bound_bytes,
		     growth = result.growth_bytes_per_s,
		     growth_bound = result.growth_bound_bytes_per_s;
	ck_assert_double_eq(bytes_bound, (double)metric_bound(&view->total, METRIC_OUTSTANDING));
	ck_assert(bytes_bound > 0 && bytes_bound < bytes / 3);
	ck_assert_double_eq_tol(growth_bound / growth,
		bytes_bound / (double)sums_outstanding_bytes(&view->total), 1e-6);
	for (unsigned exceeds = 0; exceeds <= 1; exceeds++) {
		const double less = exceeds + 0.5;
		check(&(struct limits){.has_outstanding = true,
			      .outstanding_bytes = (uint64_t)(bytes - less * bytes_bound)},
			view, NULL);
		ck_assert_uint_eq(result.count, exceeds);
		check(&(struct limits){.has_growth = true,
			      .growth_bytes_per_s = growth - less * growth_bound},
			view, NULL);
		ck_assert_uint_eq(result.count, exceeds);
		ck_assert(!exceeds || result.violation[0].bound > 0);
	}
	end();
}

/* --- against a baseline ------------------------------------------------------------------------
 */

static void check_increase(struct program old, struct program new, double want)
{
	const struct limits limits = {.has_increase = true, .increase = 0.05};
	run(0, new);
	run(1, old);
	check(&limits, side[0].view, side[1].view);
	ck_assert_uint_eq(result.count, want > 0);
	if (want > 0) {
		ck_assert_int_eq(result.violation[0].kind, LIMITS_INCREASE);
		ck_assert_msg(result.violation[0].value > want * 0.95 &&
				      result.violation[0].value < want * 1.05,
			"%f, not %f", result.violation[0].value, want);
	}
	end();
}

HT_TEST(a_leak_that_doubles_is_an_increase)
{
	check_increase((struct program){20, .leak_bytes = 10000},
		(struct program){20, .leak_bytes = 20000}, 0.8);
	check_increase((struct program){20, .leak_bytes = 10000},
		(struct program){60, .leak_bytes = 20000}, 0.8);
	check_increase((struct program){60, .leak_bytes = 10000},
		(struct program){20, .leak_bytes = 20000}, 0.8);
}

HT_TEST(a_longer_window_is_no_increase)
{
	check_increase((struct program){20, .leak_bytes = 10000},
		(struct program){60, .leak_bytes = 10000}, 0);
	check_increase((struct program){60, .leak_bytes = 10000},
		(struct program){20, .leak_bytes = 10000}, 0);
	check_increase((struct program){20, .cache_bytes = 5000000},
		(struct program){60, .cache_bytes = 5000000}, 0);
	check_increase((struct program){60, .cache_bytes = 5000000},
		(struct program){20, .cache_bytes = 5000000}, 0);
}

HT_TEST(a_small_increase_is_noise)
{
	check_increase((struct program){20, .cache_bytes = 20000},
		(struct program){20, .cache_bytes = 80000}, 0);
	check_increase((struct program){20, .cache_bytes = 20000},
		(struct program){20, .cache_bytes = 100000}, 4);
}

/* The same growth is an increase in a complete record; in a sample the bound of the difference is
 * larger. */
HT_TEST(an_increase_within_the_bounds_is_none)
{
	check_increase((struct program){20, .leak_bytes = 10000},
		(struct program){20, .leak_bytes = 13000}, 0.17);
	check_increase((struct program){20, .leak_bytes = 10000, .sample_bytes = 32768},
		(struct program){20, .leak_bytes = 13000, .sample_bytes = 32768}, 0);
}

HT_TEST(an_increase_from_nothing)
{
	check_increase((struct program){.seconds = 20},
		(struct program){20, .cache_bytes = 1000000}, LIMITS_FROM_NOTHING);
}

HT_TEST(an_empty_trace_exceeds_nothing)
{
	const struct limits limits = {
		.has_growth = true, .has_outstanding = true, .has_increase = true};
	run(0, (struct program){0});
	run(1, (struct program){0});
	check(&limits, side[0].view, side[1].view);
	ck_assert_uint_eq(result.count, 0);
	end();
}

HT_SUITE("analyzer/limits")
