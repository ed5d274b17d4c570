/* SPDX-License-Identifier: Apache-2.0
 *
 * For all parameters of the models, leaking sites count as growing and innocent ones do not.
 */
#include "analyzer/views/suspect.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/support/ht_check.h"
#include "tests/support/sample.h"
#include "tests/unit/analyzer/suspect_models.h"

struct model {
	const char *name;
	void (*run)(struct site *site);
	unsigned classes; /* bit mask of the right classes */
};

#define BIT(name) (1u << SUSPECT_##name)
#define MODEL(name, classes)                                                                       \
	{                                                                                          \
#name, name, classes                                                               \
	}
#define NOT_GROWING (BIT(PLATEAU) | BIT(SPIKE) | BIT(PERIODIC) | BIT(CHURN) | BIT(UNCLEAR))

static const struct model leaks[] = {
	MODEL(leak_constant, BIT(GROWING)),
	MODEL(leak_bursts, BIT(GROWING)),
	MODEL(leak_one_in_many, BIT(GROWING)),
	MODEL(leak_from_the_middle, BIT(GROWING)),
	MODEL(leak_within_a_cycle, BIT(GROWING)),
	MODEL(leak_accelerating, BIT(GROWING)),
	MODEL(leak_few_large, BIT(GROWING)),
	MODEL(leak_growing_array, BIT(GROWING)),
	MODEL(leak_many_tiny, BIT(GROWING)),
	MODEL(leak_of_requests, BIT(GROWING)),
	MODEL(leak_after_start_up, BIT(GROWING)),
	MODEL(leak_with_the_load, BIT(GROWING)),
	MODEL(leak_once_a_cycle, BIT(GROWING)),
	MODEL(leak_of_sessions, BIT(GROWING)),
	MODEL(leak_of_slow_requests, BIT(GROWING)),
	MODEL(leak_among_long_lives, BIT(GROWING)),
	MODEL(leak_of_a_queue, BIT(GROWING)),
	MODEL(leak_in_steps, BIT(GROWING)),
	MODEL(leak_of_fewer_requests, BIT(GROWING)),
};

static const struct model innocents[] = {
	MODEL(calm_lru, BIT(PLATEAU) | BIT(CHURN)),
	MODEL(calm_full_cache, BIT(PLATEAU)),
	MODEL(calm_saturating, BIT(PLATEAU)),
	MODEL(calm_queue, BIT(PLATEAU) | BIT(UNCLEAR)),
	MODEL(calm_busy_queue, NOT_GROWING),
	MODEL(calm_batch, BIT(PERIODIC) | BIT(CHURN) | BIT(UNCLEAR)),
	MODEL(calm_irregular_batches, NOT_GROWING),
	MODEL(calm_requests, NOT_GROWING),
	MODEL(calm_slow_requests, NOT_GROWING),
	MODEL(calm_start_up, BIT(PLATEAU)),
	MODEL(calm_hash_table, BIT(PLATEAU) | BIT(UNCLEAR)),
	MODEL(calm_pool, BIT(PLATEAU)),
	MODEL(calm_wave, NOT_GROWING),
	MODEL(calm_thread_pool, BIT(PLATEAU) | BIT(CHURN)),
	MODEL(calm_sessions, NOT_GROWING),
	MODEL(calm_new_sessions, NOT_GROWING),
	MODEL(calm_arena, BIT(PERIODIC) | BIT(CHURN)),
	MODEL(calm_one_off, BIT(PLATEAU) | BIT(SPIKE)),
	MODEL(calm_spike, BIT(SPIKE)),
	MODEL(calm_churn, BIT(CHURN)),
	MODEL(calm_random_cache, NOT_GROWING),
	MODEL(calm_interning, BIT(CHURN)),
	MODEL(calm_misses, BIT(PLATEAU) | BIT(UNCLEAR)),
	MODEL(calm_fewer_misses, BIT(PLATEAU)),
	MODEL(calm_few, BIT(PLATEAU) | BIT(UNCLEAR)),
	MODEL(calm_log_buffer, NOT_GROWING),
	MODEL(calm_ramp, BIT(PLATEAU)),
	MODEL(calm_refresh, NOT_GROWING),
};

/* The models are random: one round in some 100,000 of the sparsest ones has too few events to tell.
 * So the rounds are the same each time, and others only on request. */
static uint64_t seed_of(unsigned round)
{
	const uint64_t seed = getenv("HEAPTAP_TEST_ROUNDS") ? sample_seed(1) : 1;
	return seed * 1000003 + round;
}

static unsigned rounds(void)
{
	const char *more = getenv("HEAPTAP_TEST_ROUNDS");
	return more ? (unsigned)strtoul(more, NULL, 10) : sample_size(300, 30);
}

static struct suspect run(const struct model *model, double shortest, uint64_t seed)
{
	static struct site site;
	site_init(&site, 0, seed * 7919);
	double window = site_scale(&site, shortest, 600);
	site_init(&site, window, seed);
	model->run(&site);
	return site_classify(&site);
}

/* Prints each model that is classified wrongly, then fails. */
static void check_all(const struct model *models, size_t count, double shortest)
{
	unsigned wrong = 0;
	for (size_t m = 0; m < count; m++) {
		unsigned by_class[SUSPECT_CLASS_COUNT] = {0};
		for (unsigned i = 0; i < rounds(); i++) {
			struct suspect got = run(&models[m], shortest, seed_of(i));
			by_class[got.class]++;
			if (1u << got.class & models[m].classes)
				continue;
			if (wrong++ < 40)
				fprintf(stderr, "%s, seed %llu: %s %.2f: %s\n", models[m].name,
					(unsigned long long)seed_of(i),
					suspect_class_name(got.class), got.confidence, got.text);
		}
		if (getenv("HEAPTAP_TEST_ROUNDS")) {
			fprintf(stderr, "%-24s", models[m].name);
			for (unsigned c = 0; c < SUSPECT_CLASS_COUNT; c++)
				fprintf(stderr, " %s %u", suspect_class_name(c), by_class[c]);
			fprintf(stderr, "\n");
		}
	}
	ck_assert_uint_eq(wrong, 0);
}

HT_TEST(leaks_are_growing)
{
	check_all(leaks, HT_ARRAY_SIZE(leaks), 60);
}

HT_TEST(innocent_sites_are_not)
{
	check_all(innocents, HT_ARRAY_SIZE(innocents), 20);
}

static struct suspect run_for(void (*model)(struct site *site), double window, uint64_t seed)
{
	static struct site site;
	site_init(&site, window, seed);
	model(&site);
	return site_classify(&site);
}

static void one_block_a_second(struct site *site)
{
	for (double t = 0.5; t < site->window; t++)
		site_block(site, t, NEVER, 1024);
}

static void hundred_megabytes_a_second(struct site *site)
{
	for (double t = -1; t < site->window; t += 1e-4)
		site_block(site, t, t + site_exponential(site, 0.02), 10000);
}

/* A leak among the churn of its own site. */
static void churn_that_leaks(struct site *site)
{
	hundred_megabytes_a_second(site);
	one_block_a_second(site);
}

HT_TEST(a_small_leak_beneath_churn_and_a_cache)
{
	for (unsigned i = 0; i < 10; i++) {
		struct suspect leak = run_for(one_block_a_second, 60, seed_of(i));
		struct suspect mixed = run_for(churn_that_leaks, 60, seed_of(i));
		ck_assert_str_eq(suspect_class_name(leak.class), "growing");
		ck_assert_str_eq(suspect_class_name(mixed.class), "growing");
		ck_assert(leak.confidence > 0.85 && mixed.confidence > 0.85);
		ck_assert(fabs(leak.slope_bytes_per_s - 1024) < 60);
		ck_assert(fabs(mixed.slope_bytes_per_s - 1024) < 60);
		ck_assert_int_ne(
			run_for(hundred_megabytes_a_second, 60, seed_of(i)).class, SUSPECT_GROWING);
		ck_assert_int_eq(run_for(calm_full_cache, 60, seed_of(i)).class, SUSPECT_PLATEAU);
		ck_assert_int_eq(run_for(calm_saturating, 60, seed_of(i)).class, SUSPECT_PLATEAU);
	}
}

/* The text is complete, and says how long the window must be. */
HT_TEST(a_short_window_is_unclear)
{
	struct suspect got = run_for(leak_many_tiny, 4, 1);
	ck_assert_int_eq(got.class, SUSPECT_UNCLEAR);
	ck_assert_str_eq(
		got.text, "Unclear: a window of 4.0 s is too short; record for a minute or more.");
	struct suspect few = run_for(one_block_a_second, 7.9 * 60, 1);
	ck_assert_int_eq(few.class, SUSPECT_GROWING);
	ck_assert_int_eq(run_for(one_block_a_second, 8, 1).class, SUSPECT_UNCLEAR);
}

static void six_blocks_any_time(struct site *site)
{
	static const double at[] = {4, 9, 27, 31, 42, 55};
	for (size_t i = 0; i < HT_ARRAY_SIZE(at); i++)
		site_block(site, at[i], NEVER, 1024);
}

static void keys_that_are_set_again(struct site *site)
{
	for (double t = 0; t < site->window; t += 1e-3)
		site_block(site, t, t + site_between(site, 0.1, 3), 200);
}

static void cache_that_filled(struct site *site)
{
	for (double t = 0; t < 1; t += 1e-2)
		site_block(site, t, NEVER, 200);
}

/* The window is too short to be sure of anything but churn. */
HT_TEST(a_short_window_has_no_plateau)
{
	static void (*const unclear[])(struct site *) = {
		keys_that_are_set_again, cache_that_filled, six_blocks_any_time};
	for (size_t i = 0; i < HT_ARRAY_SIZE(unclear); i++) {
		struct suspect got = run_for(unclear[i], 5, 1);
		ck_assert_int_eq(got.class, SUSPECT_UNCLEAR);
		ck_assert_ptr_nonnull(strstr(got.text, "a window of 5.0 s is too short; record"));
	}
	ck_assert_int_eq(run_for(cache_that_filled, 30, 1).class, SUSPECT_PLATEAU);
	ck_assert_int_eq(run_for(hundred_megabytes_a_second, 5, 1).class, SUSPECT_CHURN);
}

static void six_blocks(struct site *site)
{
	for (double t = 4; t < site->window; t += 10)
		site_block(site, t, NEVER, 1024);
}

static void from_the_last_tenth_on(struct site *site)
{
	for (double t = 0.9 * site->window; t < site->window; t += 0.01)
		site_block(site, t, NEVER, 1024);
}

HT_TEST(too_little_growth_is_unclear)
{
	struct suspect got = run_for(six_blocks_any_time, 60, 1);
	ck_assert_int_eq(got.class, SUSPECT_UNCLEAR);
	ck_assert_str_eq(got.text, "Unclear: 6 blocks that stay are too few; record longer.");
	got = run_for(from_the_last_tenth_on, 60, 1);
	ck_assert_int_eq(got.class, SUSPECT_UNCLEAR);
	ck_assert_str_eq(got.text, "Unclear: it grows since 6.0 s only; record longer.");
}

HT_TEST(few_blocks_by_a_clock_grow)
{
	struct suspect got = run_for(six_blocks, 60, 1);
	ck_assert_int_eq(got.class, SUSPECT_GROWING);
	ck_assert_double_eq_tol(got.slope_bytes_per_s, 102.4, 5);
	ck_assert(got.confidence < run_for(one_block_a_second, 60, 1).confidence);
}

static void one_block_again(struct site *site)
{
	for (double t = 1; t < site->window; t += site->window / 4)
		site_block(site, t, t + site->window / 4 - 0.1, 24);
}

static void one_block_again_and_again(struct site *site)
{
	for (double t = 1; t < site->window; t += 0.5)
		site_block(site, t, t + 0.1, 24);
}

/* Three frees are too few for churn. */
HT_TEST(churn_takes_many_blocks)
{
	struct suspect got = run_for(one_block_again, 60, 1);
	ck_assert_int_eq(got.class, SUSPECT_UNCLEAR);
	ck_assert_str_eq(got.text,
		"Unclear: only 4 blocks were allocated, of which 1 is left; record longer.");
	ck_assert_int_eq(run_for(one_block_again_and_again, 60, 1).class, SUSPECT_CHURN);
}

HT_TEST(the_sentence_says_how_much)
{
	struct suspect got = run_for(one_block_a_second, 60, 3);
	ck_assert_str_eq(
		got.text, "Grows by 60.1 KiB a minute: 60 blocks allocated over 60 s stay.");
	ck_assert_uint_eq(got.oldest_ns / 1000000000, 59);
	got = run_for(leak_many_tiny, 60, 3);
	ck_assert_ptr_nonnull(strstr(got.text, " a minute: 20,"));
	ck_assert_ptr_nonnull(strstr(got.text, " blocks allocated over 60 s stay."));
}

/* Without the frees of older blocks, a queue longer than the window looks like a leak; with them it
 * does not. */
HT_TEST(older_frees_count)
{
	static struct site site;
	for (int hides = 0; hides < 2; hides++) {
		site_init(&site, 60, 5);
		site.hides_older = hides;
		for (double t = -100; t < 60; t += 0.1)
			site_block(&site, t, t + 100, 64);
		ck_assert_int_eq(
			site_classify(&site).class, hides ? SUSPECT_GROWING : SUSPECT_UNCLEAR);
	}
}

/* Frees of older blocks may belong to other sites: a batch ends before this site allocates
 * anything. */
HT_TEST(older_frees_may_be_of_others)
{
	static struct site site;
	site_init(&site, 60, 5);
	for (unsigned i = 0; i < 400; i++)
		site_block(&site, -10, 4, 1500);
	/* A list also doubles six times. */
	for (unsigned i = 0; i < 6; i++)
		site_block(&site, 7.9 + 0.1 * (1 << i), 7.9 + 0.1 * (2 << i), 1 << i);
	for (double t = 8; t < 60; t += 10)
		for (unsigned i = 0; i < 50; i++)
			site_block(&site, t, NEVER, 2000);
	ck_assert_int_eq(site_classify(&site).class, SUSPECT_GROWING);
}

HT_TEST(a_sample_needs_more_confidence)
{
	static struct site site;
	double confidence[2];
	for (int is_sample = 0; is_sample < 2; is_sample++) {
		site_init(&site, 60, 5);
		site.is_sample = is_sample;
		/* Each recorded block stands for a hundred. */
		for (double t = 0; t < 60; t++)
			for (unsigned i = 0; i < 100; i++)
				site_block(&site, t, NEVER, 64);
		struct suspect got = site_classify(&site);
		ck_assert_int_eq(got.class, SUSPECT_GROWING);
		confidence[is_sample] = got.confidence;
	}
	ck_assert(confidence[1] < confidence[0]);
}

/* Series that no program makes must give a class, a sentence, and finite numbers. */
HT_TEST(any_numbers_give_a_class)
{
	static uint64_t words[8][SUSPECT_BUCKETS_MAX];
	uint64_t random = seed_of(0);
	for (unsigned i = 0; i < 20000; i++) {
		for (size_t k = 0; k < HT_ARRAY_SIZE(words); k++)
			for (unsigned b = 0; b < SUSPECT_BUCKETS_MAX; b++)
				words[k][b] = random_next(&random) >> random_below(&random, 64) &
					      (0 - random_below(&random, 2));
		struct suspect_input input = {
			.bucket_ns = random_next(&random) >> random_below(&random, 64),
			.buckets = (uint32_t)random_below(&random, SUSPECT_BUCKETS_MAX + 3),
			.live_bytes = (const int64_t *)words[0],
			.allocated_bytes = words[1],
			.allocated_blocks = words[2],
			.surviving_bytes = words[3],
			.surviving_blocks = words[4],
			.freed_blocks = words[5],
			.older_freed_blocks = i % 2 ? words[6] : NULL,
			.freed_total_blocks = words[7][0],
			.lifetime_ns_total = words[7][1],
			.lifetime_max_ns = words[7][2]};
		struct suspect got;
		suspect_classify(&input, &got);
		ck_assert_uint_lt(got.class, SUSPECT_CLASS_COUNT);
		ck_assert(got.confidence >= 0 && got.confidence <= 1);
		ck_assert(isfinite(got.slope_bytes_per_s) && got.slope_bytes_per_s >= 0);
		size_t length = strlen(got.text);
		ck_assert(length && length + 1 < SUSPECT_TEXT_BYTES && got.text[length - 1] == '.');
	}
}

HT_TEST(an_empty_window_is_unclear)
{
	static struct site site;
	site_init(&site, 60, 1);
	ck_assert_int_eq(site_classify(&site).class, SUSPECT_UNCLEAR);
	struct suspect got;
	suspect_classify(&(struct suspect_input){0}, &got);
	ck_assert_int_eq(got.class, SUSPECT_UNCLEAR);
}

HT_SUITE("analyzer/suspect")
