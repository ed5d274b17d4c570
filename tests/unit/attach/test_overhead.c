/* SPDX-License-Identifier: Apache-2.0
 *
 * When a capture pauses because of --max-overhead: simulated loads, without a clock.
 */
#include "attach/steer/overhead.h"

#include "tests/support/ht_check.h"

#define MS 1000000ull
#define S  (1000 * MS)

/* A target: recorded calls per second of CPU time, the share of frees in these, and the processors
 * that it keeps busy. */
struct load {
	double calls_per_s, frees, processors;
};

struct run {
	struct overhead overhead;
	struct overhead_look look;
	double events, recorded_s, paused_s;
	uint64_t shortest_ns, since_ns, step_ms;
	bool is_due_always;
};

static void begin(struct run *run, uint64_t limit_ppm)
{
	*run = (struct run){.overhead = {.limit_ppm = limit_ppm},
		.look = {.now_ns = 5 * S, .cpu_ns = 7 * S, .events = 3},
		.shortest_ns = UINT64_MAX,
		.step_ms = 100,
		.is_due_always = true};
	run->events = 3;
	ck_assert(overhead_is_due(&run->overhead, run->look.now_ns) == (limit_ppm != 0));
	ck_assert(!overhead_judge(&run->overhead, &run->look));
}

/* Runs the load for `seconds` of simulated time. In a pause only frees are recorded. */
static void go_on(struct run *run, const struct load *load, double seconds)
{
	const uint64_t until_ns = run->look.now_ns + (uint64_t)(seconds * 1e9);
	while (run->look.now_ns < until_ns) {
		const bool is_paused = run->overhead.is_paused;
		const double step_s = (double)run->step_ms / 1000;
		run->look.now_ns += run->step_ms * MS;
		run->look.cpu_ns += (uint64_t)(step_s * (double)S * load->processors);
		run->events += load->calls_per_s * load->processors * step_s *
			       (is_paused ? load->frees : 1);
		run->look.events = (uint64_t)run->events;
		run->is_due_always &= overhead_is_due(&run->overhead, run->look.now_ns);
		*(is_paused ? &run->paused_s : &run->recorded_s) += step_s;
		const bool now = overhead_judge(&run->overhead, &run->look);
		if (now != is_paused && is_paused &&
			run->look.now_ns - run->since_ns < run->shortest_ns)
			run->shortest_ns = run->look.now_ns - run->since_ns;
		if (now != is_paused)
			run->since_ns = run->look.now_ns;
	}
}

HT_TEST(a_light_load_is_never_paused)
{
	struct run run;
	begin(&run, 50000);
	/* Just below a cost of 4 %, which is 666,667 calls of 60 ns in a second of CPU time. */
	go_on(&run, &(struct load){660000, 0.5, 3}, 3600);
	ck_assert_uint_eq(run.overhead.pauses, 0);
	ck_assert_uint_gt(run.overhead.ppm, 39000);
	ck_assert_uint_lt(run.overhead.ppm, 40000);
	ck_assert(run.is_due_always);
}

HT_TEST(a_heavy_load_is_kept_to_the_limit)
{
	static const struct load loads[] = {{3000000, 0.1, 1}, {3000000, 0.1, 16},
		{3000000, 0.1, 0.02}, {1000000, 0.5, 2}, {8000000, 0, 1}};
	for (size_t i = 0; i < HT_ARRAY_SIZE(loads); i++) {
		struct run run;
		begin(&run, 50000);
		go_on(&run, &loads[i], 600);
		ck_assert_uint_gt(run.overhead.pauses, 3);
		ck_assert_uint_lt(run.overhead.pauses, 400);
		ck_assert_uint_lt(overhead_mean_ppm(&run.overhead), 51000);
		/* The mean cost comes near the limit. */
		ck_assert_uint_gt(overhead_mean_ppm(&run.overhead), 40000);
		ck_assert_uint_ge(run.shortest_ns, S);
		ck_assert_double_gt(run.recorded_s, 10);
	}
}

HT_TEST(what_frees_alone_cost_more_is_not_recorded)
{
	struct run run;
	begin(&run, 10000);
	go_on(&run, &(struct load){3000000, 0.5, 1}, 600);
	ck_assert_uint_eq(run.overhead.pauses, 1);
	ck_assert_double_lt(run.recorded_s, 1);
	/* The load ends: recording goes on within seconds, however long the pause was. */
	go_on(&run, &(struct load){1000, 0.5, 1}, 10);
	ck_assert(!run.overhead.is_paused);
	ck_assert_uint_eq(run.overhead.pauses, 1);
}

/* An idle target neither begins nor ends a pause, since nothing shows what its calls would cost. */
HT_TEST(an_idle_target_changes_nothing)
{
	struct run run;
	begin(&run, 50000);
	go_on(&run, &(struct load){0, 0, 0}, 100);
	ck_assert_uint_eq(run.overhead.pauses, 0);
	go_on(&run, &(struct load){8000000, 0, 1}, 1);
	ck_assert(run.overhead.is_paused);
	go_on(&run, &(struct load){0, 0, 0}, 100);
	ck_assert(run.overhead.is_paused);
	go_on(&run, &(struct load){1000, 0, 1}, 5);
	ck_assert(!run.overhead.is_paused);
}

/* A month of the worst load has fewer pauses than a trace may have. */
HT_TEST(pauses_stay_few)
{
	struct run run;
	begin(&run, 50000);
	run.step_ms = 2000;
	go_on(&run, &(struct load){3000000, 0.1, 2}, 30.0 * 86400);
	ck_assert_uint_lt(run.overhead.pauses, OVERHEAD_PAUSES);
	ck_assert_uint_gt(run.overhead.pauses, 100);
	ck_assert_uint_lt(overhead_mean_ppm(&run.overhead), 50500);
}

HT_TEST(odd_numbers_are_harmless)
{
	struct run run;
	begin(&run, 0);
	go_on(&run, &(struct load){8000000, 1, 1}, 10);
	ck_assert_uint_eq(run.overhead.pauses, 0);
	begin(&run, 1);
	/* The clock of the CPU time cannot be read, or goes back. */
	run.look.cpu_ns = 0;
	run.look.events = UINT64_MAX / 100;
	run.look.now_ns += 100 * MS;
	(void)overhead_judge(&run.overhead, &run.look);
	(void)overhead_judge(&run.overhead, &run.look);
	ck_assert_uint_ge(run.overhead.limit_ppm, 1);
}

HT_SUITE("attach/steer/overhead")
