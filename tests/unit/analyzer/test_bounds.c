/* SPDX-License-Identifier: Apache-2.0
 *
 * The bounds of a sample, compared with the whole trace of the same run: samples are drawn by the
 * agent's rule with many seeds, and 95 of 100 intervals must contain the true figure.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/views/compare.h"
#include "analyzer/views/function.h"
#include "tests/unit/analyzer/scene.h"

#define RATE	 4096u
#define SITES	 12u
#define BLOCKS	 6000u
#define SEEDS	 200u
#define TOP	 5u
#define EXPECTED 5.0 /* a figure is judged if at least so many samples of it are expected */

struct made_block {
	uint32_t site;
	uint64_t size;
	bool is_freed;
};

#define WINDOW_NS 60000000000u

static struct made_block run[BLOCKS];
static struct scene scene;
static struct analysis *analysis;
static struct view *view;

/* Makes a random run: sites of small and of large blocks, of which the first ones allocate most
 * often. */
static void make_run_of(unsigned seed)
{
	srandom(seed);
	for (unsigned i = 0; i < BLOCKS; i++) {
		const uint32_t site = (uint32_t)fmin(
			SITES - 1, floor(-log((random() % 100000 + 1) / 100000.0) * 3));
		const uint64_t least = 16u << site % 4 * 3; /* 16 to 8192 */
		run[i] = (struct made_block){
			site, least + (uint64_t)random() % (3 * least), random() % 3 != 0};
	}
}

static void make_run(void)
{
	make_run_of(34);
}

static bool is_taken(uint64_t size)
{
	return drand48() < -expm1(-((double)size + 1) / RATE);
}

/* `rate` 0: the trace has all allocations. */
static void look(uint64_t rate)
{
	scene_init_sample(&scene, rate);
	uint32_t node[SITES];
	tracebuild_module(
		&scene.trace, 1, "/usr/bin/x", "12345678901234567890", 0x400000, 0x500000);
	for (uint32_t i = 0; i < SITES; i++) {
		char name[16];
		snprintf(name, sizeof(name), "site%u", i);
		node[i] = tracebuild_node(&scene.trace, 0, 0x400100 + 0x100 * i);
		tracebuild_symbol(&scene.trace, 1, 0xff + 0x100 * i, name, "x.c", i + 1);
	}
	for (uint32_t i = 0; i < BLOCKS; i++) {
		if (rate && !is_taken(run[i].size))
			continue;
		scene_malloc(&scene, 0, 0x10000 + 0x10000ull * i, run[i].size, node[run[i].site]);
		if (run[i].is_freed)
			scene_free(&scene, 0, 0x10000 + 0x10000ull * i, 0);
	}
	/* However many blocks are in the trace, its window is one minute. */
	scene.now = SCENE_START_NS + WINDOW_NS - 2 * SCENE_STEP_NS;
	analysis = scene_analyze(&scene);
	view = scene_view(analysis, NULL);
}

static void forget(void)
{
	view_destroy(view);
	analysis_destroy(analysis);
	scene_deinit(&scene);
}

/* Figures by site; the last are those of the total. */
struct looked {
	struct sums site[SITES + 1];
};

static void note(struct looked *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->site[SITES] = view->total;
	for (size_t i = 0; i < view->row_count; i++) {
		const uint32_t group = view->tree.node[view->row[i].node].group;
		const struct frame *frame = &view->frames.frame[view->groups.group[group].frame];
		ret->site[strtoul(frame->function + strlen("site"), NULL, 10)] = view->row[i].sums;
	}
}

static double expected_samples(uint32_t site, bool is_outstanding)
{
	double sum = 0;
	for (unsigned i = 0; i < BLOCKS; i++)
		if ((site == SITES || run[i].site == site) && !(is_outstanding && run[i].is_freed))
			sum += -expm1(-((double)run[i].size + 1) / RATE);
	return sum;
}

struct covered {
	unsigned count, within;
};

static void cover(struct covered *covered, int64_t truth, int64_t estimate, int64_t bound)
{
	covered->count++;
	covered->within += llabs(truth - estimate) <= bound;
}

HT_TEST(intervals_hold_the_true_figure)
{
	static const enum metric metrics[] = {METRIC_ALLOCATED, METRIC_CALLS, METRIC_OUTSTANDING,
		METRIC_SURVIVORS, METRIC_GROWTH, METRIC_LIVE, METRIC_FREED};
	struct covered covered[HT_ARRAY_SIZE(metrics) + 1] = {0};
	struct looked full, sample;
	make_run();
	look(0);
	note(&full);
	forget();
	for (unsigned seed = 1; seed <= SEEDS; seed++) {
		srand48((long)seed);
		look(RATE);
		note(&sample);
		forget();
		for (uint32_t i = 0; i <= SITES; i++) {
			const struct sums *truth = &full.site[i], *is = &sample.site[i];
			if (expected_samples(i, true) < EXPECTED)
				continue;
			for (size_t k = 0; k < HT_ARRAY_SIZE(metrics); k++)
				cover(&covered[k], metric_value(truth, metrics[k]),
					metric_value(is, metrics[k]), metric_bound(is, metrics[k]));
			cover(&covered[HT_ARRAY_SIZE(metrics)],
				(int64_t)sums_outstanding_blocks(truth),
				(int64_t)sums_outstanding_blocks(is),
				sums_outstanding_blocks_bound(is));
		}
	}
	for (size_t k = 0; k < HT_ARRAY_SIZE(covered); k++) {
		const double share = (double)covered[k].within / covered[k].count;
		ck_assert_uint_gt(covered[k].count, 1000);
		ck_assert_msg(share > 0.93 && share < 0.97, "%s: %.1f %% of %u intervals",
			k < HT_ARRAY_SIZE(metrics) ? metric_info(metrics[k])->name : "blocks",
			100 * share, covered[k].count);
	}
}

/* Two runs of one program side by side, each with a sample of its own. */
struct pair {
	struct scene scene[2];
	struct analysis *analysis[2];
	const struct view *view[2];
	struct compare compare;
};

#define RUN_SEED 34u /* of the older run; the newer has the next */

static void look_at_pair(struct pair *pair, uint64_t rate)
{
	for (unsigned i = 0; i < 2; i++) {
		make_run_of(RUN_SEED + i);
		look(rate);
		pair->scene[i] = scene;
		pair->analysis[i] = analysis;
		pair->view[i] = view;
	}
	ck_no_err(compare_init(&pair->compare, pair->view, 2));
}

static void forget_pair(struct pair *pair)
{
	compare_deinit(&pair->compare);
	for (unsigned i = 0; i < 2; i++) {
		view_destroy((struct view *)(uintptr_t)pair->view[i]);
		analysis_destroy(pair->analysis[i]);
		scene_deinit(&pair->scene[i]);
	}
}

/* Finds the figures of the site's entry. Returns false if no sample is of that site. */
static bool find_difference(const struct pair *pair, uint32_t site, enum metric metric,
	double *difference, double *bound)
{
	char name[16];
	snprintf(name, sizeof(name), "site%u", site);
	for (size_t i = 0; i < pair->compare.count; i++) {
		const struct compare_entry *entry = &pair->compare.entry[i];
		const struct view *of = pair->view[entry->view];
		const uint32_t group = of->tree.node[of->row[entry->row].node].group;
		if (strcmp(of->frames.frame[of->groups.group[group].frame].function, name))
			continue;
		*difference = compare_rate(&pair->compare, entry, 1, metric) -
			      compare_rate(&pair->compare, entry, 0, metric);
		*bound = compare_difference_bound(compare_bound(&pair->compare, entry, 0, metric),
			compare_bound(&pair->compare, entry, 1, metric));
		return true;
	}
	return false;
}

static void total_difference(
	const struct pair *pair, enum metric metric, double *difference, double *bound)
{
	*difference = compare_rate(&pair->compare, NULL, 1, metric) -
		      compare_rate(&pair->compare, NULL, 0, metric);
	*bound = compare_difference_bound(compare_bound(&pair->compare, NULL, 0, metric),
		compare_bound(&pair->compare, NULL, 1, metric));
}

/* The site with the number SITES is the total. */
static bool difference_of(const struct pair *pair, uint32_t site, enum metric metric,
	double *difference, double *bound)
{
	if (site < SITES)
		return find_difference(pair, site, metric, difference, bound);
	total_difference(pair, metric, difference, bound);
	return true;
}

static bool both_are_expected(uint32_t site)
{
	for (unsigned i = 0; i < 2; i++) {
		make_run_of(RUN_SEED + i);
		if (expected_samples(site, true) < EXPECTED)
			return false;
	}
	return true;
}

HT_TEST(intervals_hold_the_true_difference)
{
	static const enum metric metrics[] = {
		METRIC_ALLOCATED, METRIC_CALLS, METRIC_OUTSTANDING, METRIC_LIVE, METRIC_FREED};
	struct covered covered[HT_ARRAY_SIZE(metrics)] = {0};
	double truth[SITES + 1][HT_ARRAY_SIZE(metrics)], exact, found, bound;
	bool is_judged[SITES + 1];
	struct pair pair;
	look_at_pair(&pair, 0);
	for (uint32_t i = 0; i <= SITES; i++) {
		is_judged[i] = both_are_expected(i);
		for (size_t k = 0; k < HT_ARRAY_SIZE(metrics) && is_judged[i]; k++) {
			ck_assert(difference_of(&pair, i, metrics[k], &truth[i][k], &exact));
			ck_assert_double_eq(exact, 0);
		}
	}
	forget_pair(&pair);
	for (unsigned seed = 1; seed <= SEEDS; seed++) {
		srand48((long)(1000 + seed));
		look_at_pair(&pair, RATE);
		for (uint32_t i = 0; i <= SITES; i++)
			for (size_t k = 0; k < HT_ARRAY_SIZE(metrics) && is_judged[i]; k++)
				if (difference_of(&pair, i, metrics[k], &found, &bound))
					cover(&covered[k], llround(truth[i][k]), llround(found),
						llround(bound));
		forget_pair(&pair);
	}
	for (size_t k = 0; k < HT_ARRAY_SIZE(covered); k++) {
		const double share = (double)covered[k].within / covered[k].count;
		ck_assert_uint_gt(covered[k].count, 1000);
		ck_assert_msg(share > 0.93 && share < 0.97, "%s: %.1f %% of %u intervals",
			metric_info(metrics[k])->name, 100 * share, covered[k].count);
	}
}

/* A site whose size in the whole trace exceeds that of the sample's sixth site, by both bounds,
 * must be among the sample's first five. */
HT_TEST(large_sites_are_among_the_first)
{
	struct looked full, sample;
	unsigned judged = 0, missed = 0;
	make_run();
	look(0);
	note(&full);
	forget();
	for (unsigned seed = 1; seed <= SEEDS / 2; seed++) {
		srand48((long)seed);
		look(RATE);
		note(&sample);
		uint32_t *row;
		ck_no_err(view_order(view, METRIC_OUTSTANDING, &row));
		ck_assert_uint_gt(view->row_count, TOP);
		const struct sums *next = &view->row[row[TOP]].sums;
		const int64_t bar = metric_value(next, METRIC_OUTSTANDING) +
				    metric_bound(next, METRIC_OUTSTANDING);
		const int64_t least =
			metric_value(&view->row[row[TOP - 1]].sums, METRIC_OUTSTANDING);
		for (uint32_t i = 0; i < SITES; i++) {
			const int64_t truth = metric_value(&full.site[i], METRIC_OUTSTANDING);
			const struct sums *is = &sample.site[i];
			if (truth <= bar + metric_bound(is, METRIC_OUTSTANDING))
				continue;
			judged++;
			missed += metric_value(is, METRIC_OUTSTANDING) < least;
		}
		free(row);
		forget();
	}
	ck_assert_uint_gt(judged, SEEDS);
	ck_assert_msg(missed * 100 <= judged, "%u of %u", missed, judged);
}

/* The variance of allocated bytes is the sum of (1 - p) (size / p)^2 over the recorded blocks, of
 * which each was recorded with the probability p. */
HT_TEST(variances_are_those_of_the_blocks)
{
	struct looked sample;
	double exact[SITES] = {0};
	make_run();
	srand48(1);
	look(RATE);
	note(&sample);
	forget();
	srand48(1);
	for (unsigned i = 0; i < BLOCKS; i++) {
		if (!is_taken(run[i].size))
			continue;
		const double p = -expm1(-((double)run[i].size + 1) / RATE);
		exact[run[i].site] += (1 - p) * pow((double)run[i].size / p, 2);
	}
	for (uint32_t i = 0; i < SITES; i++) {
		const double is = (double)sample.site[i].variance[METRIC_ALLOCATED];
		ck_assert_double_eq_tol(is, exact[i], exact[i] * 1e-4);
	}
}

HT_TEST(whole_traces_and_certain_blocks_have_no_bound)
{
	struct looked is;
	make_run();
	look(0);
	note(&is);
	forget();
	ck_assert_int_eq(metric_bound(&is.site[SITES], METRIC_ALLOCATED), 0);
	scene_init_sample(&scene, RATE);
	scene_malloc(&scene, 0, 0x10000, 1 << 20, 0);
	analysis = scene_analyze(&scene);
	view = scene_view(analysis, NULL);
	ck_assert_int_eq(metric_bound(&view->total, METRIC_ALLOCATED), 0);
	forget();
	ck_assert_int_eq(figure_bound((struct figure){100, 0}), 0);
	ck_assert_int_eq(
		figure_bound((struct figure){0, 100}), (int64_t)llround(1.959964 * sqrt(300)));
	ck_assert_int_eq(figure_bound((struct figure){1000000, 100}), 20);
	ck_assert_int_eq(figure_bound((struct figure){1, NAN}), 0);
	ck_assert_int_eq(figure_bound((struct figure){INT64_MAX, 1e300}), INT64_MAX);
}

/* In each tree the root has the bound of the total, and the squares of the bounds of disjoint parts
 * add up. */
HT_TEST(trees_have_the_same_bounds)
{
	make_run();
	srand48(7);
	look(RATE);
	for (int is_bottom_up = 0; is_bottom_up <= 1; is_bottom_up++) {
		struct calls calls;
		ck_no_err(calls_init(&calls, view,
			&(struct calls_options){.grouping = GROUPING_FUNCTION,
				.is_bottom_up = is_bottom_up,
				.metric = METRIC_ALLOCATED,
				.sort = METRIC_ALLOCATED}));
		const int64_t bound = metric_bound(&view->total, METRIC_ALLOCATED);
		ck_assert_int_le(llabs(figure_bound(calls.total[0]) - bound), 1 + bound / 10000);
		double sum = calls.own[0].variance;
		for (uint32_t i = 0; i < calls.children[0].count; i++)
			sum += calls.total[calls.child[i]].variance;
		ck_assert_double_eq_tol(
			sum, calls.total[0].variance, calls.total[0].variance * 1e-9);
		calls_deinit(&calls);
	}
	forget();
}

/* Each site is one function with one line: site, function and line have the same bound. */
HT_TEST(functions_and_lines_have_the_same_bounds)
{
	struct looked sample;
	struct calls calls;
	make_run();
	srand48(7);
	look(RATE);
	note(&sample);
	ck_no_err(calls_init(&calls, view,
		&(struct calls_options){.grouping = GROUPING_FUNCTION,
			.metric = METRIC_ALLOCATED,
			.sort = METRIC_ALLOCATED}));
	for (uint32_t i = 0; i < SITES; i++) {
		const double want = (double)sample.site[i].variance[METRIC_ALLOCATED];
		struct function_matches matches;
		struct function function;
		char name[16];
		if (!want)
			continue;
		snprintf(name, sizeof(name), "site%u", i);
		ck_no_err(function_find(&calls, name, &matches));
		ck_no_err(function_init(&function, &calls, &matches));
		ck_assert_uint_eq(function.line_count, 1);
		const double found[] = {matches.match[0].sum.own.variance,
			matches.match[0].sum.inclusive.variance, function.sum.own.variance,
			function.sum.inclusive.variance, function.outermost.variance,
			function.line[0].sum.own.variance, function.line[0].sum.inclusive.variance};
		for (size_t k = 0; k < HT_ARRAY_SIZE(found); k++)
			ck_assert_double_eq_tol(found[k], want, want * 1e-6);
		function_deinit(&function);
		function_matches_deinit(&matches);
	}
	calls_deinit(&calls);
	forget();
}

HT_SUITE("analyzer/bounds")
