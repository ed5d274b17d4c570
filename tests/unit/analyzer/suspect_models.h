/* SPDX-License-Identifier: Apache-2.0
 *
 * Models of programs' use of memory: sites that leak and sites that do not. Each draws its
 * parameters at random.
 */
#pragma once

#include "tests/unit/analyzer/suspect_site.h"

static inline uint64_t model_bytes(struct site *site)
{
	return (uint64_t)site_scale(site, 16, 65536);
}

/* Returns the time of the next event: at random times, `rate` a second; if `evenly`, at even times
 * with some jitter. */
static inline double model_next(struct site *site, double now, double rate, bool evenly)
{
	return now +
	       (evenly ? site_between(site, 0.8, 1.2) / rate : site_exponential(site, 1 / rate));
}

/* Adds blocks that live `life` seconds on average. */
static inline void model_churn(struct site *site, double from, double to, double rate, double life)
{
	uint64_t bytes = model_bytes(site);
	for (double t = from; t < to; t = model_next(site, t, rate, false))
		site_block(site, t, t + site_exponential(site, life), bytes);
}

/* ---- leaking ---- */

static inline void leak_constant(struct site *site)
{
	double rate = site_scale(site, 100, 5000) / site->window;
	uint64_t bytes = model_bytes(site);
	bool evenly = site_chance(site, 0.5);
	for (double t = 0; t < site->window; t = model_next(site, t, rate, evenly))
		site_block(site, t, NEVER, bytes);
}

static inline void leak_bursts(struct site *site)
{
	double rate = site_between(site, 120, 300) / site->window;
	for (double t = model_next(site, 0, rate, false); t < site->window;
		t = model_next(site, t, rate, false))
		for (uint64_t i = random_below(&site->random, 30) + 1; i--;)
			site_block(site, t + (double)i * 1e-4, NEVER, 100);
}

static inline void leak_one_in_many(struct site *site)
{
	double leaks = site_between(site, 100, 300), share = site_scale(site, 1e-3, 0.1);
	double rate = leaks / share / site->window, life = site_scale(site, 1e-3, 1);
	for (double t = -10; t < site->window; t = model_next(site, t, rate, false))
		site_block(site, t,
			t >= 0 && site_chance(site, share) ? NEVER
							   : t + site_exponential(site, life),
			512);
}

static inline void leak_from_the_middle(struct site *site)
{
	double begin = site_between(site, 0.3, 0.6) * site->window;
	double rate = site_scale(site, 100, 1000) / (site->window - begin);
	if (site_chance(site, 0.5))
		model_churn(site, -1, site->window, 10 * rate, site_scale(site, 1e-3, 0.2));
	for (double t = begin; t < site->window; t = model_next(site, t, rate, false))
		site_block(site, t, NEVER, 1000);
}

static inline void leak_within_a_cycle(struct site *site)
{
	double cycle = site->window * site_between(site, 0.04, 0.2),
	       share = site_between(site, 0.02, 0.3);
	double rate = site_between(site, 200, 1000) / share / site->window;
	double begin = -site_between(site, 0, cycle);
	for (double t = begin; t < site->window; t = model_next(site, t, rate, true))
		site_block(site, t,
			site_chance(site, share) ? NEVER
						 : begin + cycle * ceil((t - begin) / cycle + 1e-9),
			256);
}

static inline void leak_accelerating(struct site *site)
{
	double blocks = site_scale(site, 100, 3000), power = site_between(site, 1.2, 3);
	for (double i = 0; i < blocks; i++)
		site_block(
			site, site->window * pow(site_between(site, 0, 1), 1 / power), NEVER, 300);
}

static inline void leak_few_large(struct site *site)
{
	double gap = fmin(5, site->window / 12);
	for (double t = site_between(site, 0, gap); t < site->window;
		t += gap * site_between(site, 0.9, 1.1))
		site_block(site, t, NEVER, 8 << 20);
}

static inline void leak_growing_array(struct site *site)
{
	double factor = site_chance(site, 0.5) ? 2 : 1.5, capacity = 16, now = 0;
	double rate = site_scale(site, 1000, 100000) / site->window;
	for (double next; now < site->window; now = next, capacity *= factor) {
		next = capacity / rate;
		site_block(site, now, next, (uint64_t)capacity * 8);
	}
}

static inline void leak_many_tiny(struct site *site)
{
	for (double t = 0; t < site->window; t = model_next(site, t, 20000 / site->window, false))
		site_block(site, t, NEVER, 16);
}

static inline void leak_of_requests(struct site *site)
{
	double rate = site_between(site, 5000, 30000) / site->window,
	       share = site_between(site, 0.02, 0.1);
	double median = site_scale(site, 0.01, 0.2), sigma = site_between(site, 0.5, 1.3);
	for (double t = -30; t < site->window; t = model_next(site, t, rate, false))
		site_block(site, t,
			site_chance(site, share) ? NEVER : t + site_lognormal(site, median, sigma),
			2000);
}

static inline void leak_after_start_up(struct site *site)
{
	for (unsigned i = 0; i < 5000; i++)
		site_block(site, site_between(site, 0, 0.02 * site->window), NEVER, 4000);
	leak_constant(site);
}

static inline void leak_with_the_load(struct site *site)
{
	double blocks = site_scale(site, 1500, 8000), phase = site_between(site, 0, 2 * M_PI);
	double turns = site_between(site, 2, 6) * 2 * M_PI / site->window;
	for (double i = 0; i < blocks; i++) {
		double t = site_between(site, 0, site->window);
		if (site_chance(site, (1 + 0.7 * sin(turns * t + phase)) / 1.7))
			site_block(site, t, NEVER, 128);
	}
}

static inline void leak_once_a_cycle(struct site *site)
{
	double cycle = site->window / site_between(site, 20, 60);
	for (double t = -site_between(site, 0, cycle); t < site->window; t += cycle) {
		for (unsigned i = 0; i < 100; i++)
			site_block(site, t + cycle * i / 100, t + cycle, 700);
		site_block(site, t + cycle * 0.7, NEVER, 700);
	}
}

static inline void leak_of_sessions(struct site *site)
{
	double rate = 10000 / site->window, life = site->window * site_between(site, 0.005, 0.03);
	for (double t = -site->window; t < site->window; t = model_next(site, t, rate, false))
		site_block(site, t,
			site_chance(site, 0.1) ? NEVER : t + site_exponential(site, life), 3000);
}

/* Some requests take as long as the window, but end. */
static inline void leak_of_slow_requests(struct site *site)
{
	double rate = 50000 / site->window;
	for (double t = -site->window; t < site->window; t = model_next(site, t, rate, false))
		site_block(site, t,
			site_chance(site, 0.1) ? NEVER
					       : t + site_lognormal(site, site->window / 2000, 2),
			400);
}

/* Beside the leak a few blocks live long, but end. */
static inline void leak_among_long_lives(struct site *site)
{
	for (unsigned i = 0; i < 1 + site->random % 4; i++) {
		double birth = site_between(site, 0, 0.6) * site->window;
		site_block(site, birth, birth + site_between(site, 0.2, 0.39) * site->window, 512);
	}
	double rate = site_scale(site, 150, 3000) / site->window;
	for (double t = 0; t < site->window; t = model_next(site, t, rate, false))
		site_block(site, t, NEVER, 512);
	if (site_chance(site, 0.5))
		model_churn(site, -1, site->window, 10 * rate, site_scale(site, 1e-3, 0.2));
}

/* The queue's reader is slower than its writer. */
static inline void leak_of_a_queue(struct site *site)
{
	double rate = site_scale(site, 5000, 20000) / site->window,
	       slower = site_between(site, 1.2, 1.4);
	bool evenly = site_chance(site, 0.5);
	for (double t = 0, done = 0; t < site->window; t = model_next(site, t, rate, evenly)) {
		done = fmax(done, t) + slower / rate * (evenly ? 1 : site_exponential(site, 1));
		site_block(site, t, done, 777);
	}
}

/* A job that runs by a clock keeps some of what it makes; few of its runs are in the window. */
static inline void leak_in_steps(struct site *site)
{
	double gap = site->window / site_between(site, 6.5, 9);
	uint64_t blocks = 1 + random_below(&site->random, 400);
	for (double t = site_between(site, 0, gap); t < site->window;
		t += gap * site_between(site, 0.97, 1.03))
		for (uint64_t i = 0; i < blocks; i++)
			site_block(site, t + 1e-4 * (double)i, NEVER, 700);
}

/* Requests of which some stay. The machine becomes busy, and remains so. */
static inline void leak_of_fewer_requests(struct site *site)
{
	double rate = site_scale(site, 20000, 100000) / site->window;
	double share = site_between(site, 0.3, 1);
	double until = site->window * site_between(site, 0.1, 0.7);
	double less = site_between(site, 0.2, 0.9);
	for (double t = 0; t < site->window;
		t = model_next(site, t, t < until ? rate : less * rate, false)) {
		site_work(site, t, 10 + random_below(&site->random, 40));
		if (site_chance(site, share))
			site_block(site, t, NEVER, 300);
	}
}

/* ---- innocent ---- */

/* A cache fills, and each miss does some work; the program does no other work. */
static inline void calm_misses(struct site *site)
{
	double slow = site->window * site_scale(site, 0.05, 0.7);
	double blocks = site_scale(site, 500, 50000);
	for (double i = 0; i < blocks; i++) {
		double t = site_exponential(site, slow);
		site_work(site, t, 10 + random_below(&site->random, 40));
		site_block(site, t, NEVER, 1500);
	}
}

/* A few objects that are each made when they are first needed. */
static inline void calm_few(struct site *site)
{
	uint64_t count = 2 + random_below(&site->random, 6);
	for (uint64_t i = 0; i < count; i++)
		site_block(site, site_between(site, 0, site->window), NEVER, 4096);
}

/* A text buffer doubles until it is written out, and begins anew. */
static inline void calm_log_buffer(struct site *site)
{
	double cycle = site->window * site_scale(site, 0.05, 0.4);
	double begin = -site_between(site, 0, cycle), least = site_scale(site, 1, 64);
	for (; begin < site->window; begin += cycle)
		for (double part = least / 4096, next; part < 1; part = next) {
			next = part * 2;
			site_block(site, begin + cycle * part, begin + cycle * fmin(1, next),
				(uint64_t)(1e6 * part) + 16);
		}
}

/* The start-up makes less and less, and is over before the window ends. */
static inline void calm_ramp(struct site *site)
{
	double took = site->window * site_between(site, 0.1, 0.6);
	double blocks = site_scale(site, 20, 5000);
	for (double i = 0; i < blocks; i++)
		site_block(site, took * (1 - sqrt(site_between(site, 0, 1))), NEVER, 900);
}

/* A job that runs by a clock drops what its last run made. */
static inline void calm_refresh(struct site *site)
{
	double gap = site->window / site_between(site, 1.5, 9);
	uint64_t blocks = 1 + random_below(&site->random, 400);
	for (double t = -site_between(site, 0, gap), next; t < site->window; t = next) {
		next = t + gap * site_between(site, 0.97, 1.03);
		for (uint64_t i = 0; i < blocks; i++)
			site_block(site, t + 1e-4 * (double)i, next, 700);
	}
}

/* A queue whose reader just keeps up with its writer. */
static inline void calm_busy_queue(struct site *site)
{
	double rate = site_scale(site, 1000, 20000) / site->window,
	       slower = site_between(site, 0.8, 1);
	for (double t = -site->window, done = t; t < site->window;
		t = model_next(site, t, rate, false)) {
		done = fmax(done, t) + slower / rate * site_exponential(site, 1);
		site_block(site, t, done, 777);
	}
}

/* A full cache drops its oldest block. */
static inline void calm_lru(struct site *site)
{
	double fill = site->window * site_between(site, 0.1, 0.7);
	double rate = site_scale(site, 100, 5000) / site->window;
	for (double t = 0; t < site->window; t = model_next(site, t, rate, true))
		site_block(site, t, t + fill, 4096);
}

static inline void calm_full_cache(struct site *site)
{
	double fill = site->window * site_between(site, 0.1, 0.85);
	double rate = site_scale(site, 100, 5000) / site->window;
	for (double t = 0; t < fill; t = model_next(site, t, rate, true))
		site_block(site, t, NEVER, 4096);
}

static inline void calm_saturating(struct site *site)
{
	double slow = site->window * site_scale(site, 0.05, 0.7),
	       blocks = site_scale(site, 500, 5000);
	for (double i = 0; i < blocks; i++)
		site_block(site, site_exponential(site, slow), NEVER, 1500);
}

/* A cache that saturates, in a program that answers as many requests as before: its other work is
 * no less. */
static inline void calm_fewer_misses(struct site *site)
{
	double rate = 20000 / site->window;
	calm_saturating(site);
	for (double t = 0; t < site->window; t = model_next(site, t, rate, false))
		site_work(site, t, 30);
}

static inline void calm_queue(struct site *site)
{
	double life = site->window * site_scale(site, 0.3, 4);
	double rate = site_scale(site, 100, 2000) / site->window;
	bool evenly = site_chance(site, 0.5);
	for (double t = -life; t < site->window; t = model_next(site, t, rate, evenly))
		site_block(site, t, t + life, 640);
}

/* A job frees everything at its end; the window begins and ends anywhere within one. */
static inline void calm_batch(struct site *site)
{
	double cycle = site->window * site_scale(site, 0.1, 0.95);
	double rate = site_scale(site, 300, 5000) / site->window;
	double begin = site_chance(site, 0.5) ? -site_between(site, 0, cycle)
					      : fmod(site->window + cycle * 0.01, cycle) - cycle;
	for (double t = begin; t < site->window; t = model_next(site, t, rate, true))
		site_block(site, t, begin + cycle * ceil((t - begin) / cycle + 1e-9), 2048);
}

static inline void calm_irregular_batches(struct site *site)
{
	double mean = site->window * site_between(site, 0.03, 0.3);
	double rate = site_scale(site, 500, 5000) / site->window;
	for (double begin = -site_exponential(site, mean), end; begin < site->window; begin = end) {
		end = begin + mean * 0.3 + fmin(2.7 * mean, site_exponential(site, mean));
		for (double t = begin; t < end; t = model_next(site, t, rate, true))
			site_block(site, t, end, 2048);
	}
}

static inline void calm_requests(struct site *site)
{
	double rate = site_scale(site, 500, 30000) / site->window;
	double median = site_scale(site, 0.005, 1), sigma = site_between(site, 0.5, 2);
	for (double t = -3 * site->window; t < site->window; t = model_next(site, t, rate, false))
		site_block(site, t, t + site_lognormal(site, median, sigma), 9000);
}

/* Most requests end at once, many after a good part of the window. */
static inline void calm_slow_requests(struct site *site)
{
	double rate = 50000 / site->window, slow = site->window * site_between(site, 0.3, 0.6);
	for (double t = 0; t < site->window; t = model_next(site, t, rate, false))
		site_block(site, t,
			t + site_exponential(
				    site, site_chance(site, 0.2) ? slow : site->window / 5000),
			400);
}

static inline void calm_start_up(struct site *site)
{
	double took = site->window * site_scale(site, 0.005, 0.3),
	       blocks = site_scale(site, 10, 5000);
	for (double i = 0; i < blocks; i++)
		site_block(site, site_between(site, 0, took), NEVER, 900);
}

/* New keys become rarer. */
static inline void calm_hash_table(struct site *site)
{
	double capacity = 64, now = 0, keys = site_scale(site, 1000, 100000);
	double slow = site->window * site_between(site, 0.02, 0.2);
	bool is_log = site_chance(site, 0.5);
	for (double next; now < site->window; now = next, capacity *= 2) {
		if (is_log)
			next = site->window / 300 * expm1(capacity / 64 / 2);
		else
			next = capacity < keys ? -slow * log(1 - capacity / keys) : NEVER;
		site_block(site, now, next, (uint64_t)capacity * 16);
	}
}

static inline void calm_pool(struct site *site)
{
	double steps = site_between(site, 3, 20),
	       until = site->window * site_between(site, 0.2, 0.6);
	bool evenly = site_chance(site, 0.5);
	for (double i = 0; i < steps; i++)
		site_block(site, evenly ? until * i / steps : site_between(site, 0, until), NEVER,
			1 << 20);
}

static inline void calm_wave(struct site *site)
{
	double turns = site_scale(site, 0.2, 3) * 2 * M_PI / site->window;
	double phase = site_between(site, 0, 2 * M_PI),
	       life = site->window * site_scale(site, 0.001, 0.2);
	double rate = site_scale(site, 1000, 10000) / site->window;
	for (double t = -site->window; t < site->window; t = model_next(site, t, rate, false))
		if (site_chance(site, (1 + 0.9 * sin(turns * t + phase)) / 1.9))
			site_block(site, t, t + site_exponential(site, life), 1200);
}

static inline void calm_thread_pool(struct site *site)
{
	double threads = site_between(site, 4, 100),
	       life = site->window * site_scale(site, 0.01, 0.3);
	for (double i = 0; i < threads; i++)
		for (double t = -2 * site->window, end; t < site->window; t = end) {
			end = t + life * site_between(site, 0.5, 1.5);
			site_block(site, t, end, 272);
		}
}

static inline void calm_sessions(struct site *site)
{
	double life = site->window * site_scale(site, 0.1, 3);
	double rate = site_scale(site, 200, 5000) / site->window;
	for (double t = -6 * life; t < site->window; t = model_next(site, t, rate, false))
		site_block(site, t, t + site_exponential(site, life), 5000);
}

static inline void calm_new_sessions(struct site *site)
{
	double life = site->window * site_scale(site, 0.1, 1);
	double rate = site_scale(site, 200, 5000) / site->window;
	for (double t = 0; t < site->window; t = model_next(site, t, rate, false))
		site_block(site, t, t + site_exponential(site, life), 5000);
}

static inline void calm_arena(struct site *site)
{
	double reset = site->window / site_between(site, 3.5, 20),
	       chunk = reset / site_between(site, 3, 30);
	for (double begin = -site_between(site, 0, reset); begin < site->window; begin += reset)
		for (double t = begin; t < begin + reset; t += chunk)
			site_block(site, t, begin + reset, 65536);
}

static inline void calm_one_off(struct site *site)
{
	double at = site_between(site, 0, site->window * 0.9);
	for (uint64_t i = random_below(&site->random, 20) + 1; i--;)
		site_block(site, at, site_chance(site, 0.5) ? NEVER : at + site->window / 50,
			10 << 20);
}

static inline void calm_spike(struct site *site)
{
	double at = site_between(site, 0.1, 0.7) * site->window;
	for (unsigned i = 0; i < 200; i++)
		site_block(site, at, at + site->window * 0.1, 10000);
}

static inline void calm_churn(struct site *site)
{
	model_churn(site, -5, site->window, site_scale(site, 1000, 20000) / site->window,
		site_scale(site, 1e-4, 0.5));
}

/* A full cache drops any block for a new one. */
static inline void calm_random_cache(struct site *site)
{
	double fill = site->window * site_between(site, 0.1, 0.6);
	double rate = site_scale(site, 300, 5000) / site->window;
	for (double t = 0; t < site->window; t = model_next(site, t, rate, true))
		site_block(site, t, fmax(t, fill) + site_exponential(site, fill), 4096);
}

/* Names that are made again and again, and kept when they are new. */
static inline void calm_interning(struct site *site)
{
	double names = site_between(site, 100, 500), rate = 20000 / site->window;
	double spread = names * site_scale(site, 3, 20);
	double kept = 0;
	for (double t = 0; t < site->window; t = model_next(site, t, rate, false)) {
		bool is_new = site_chance(site, (names - kept) / spread);
		kept += is_new;
		site_block(site, t, is_new ? NEVER : t + 0.001, 40);
	}
}
