/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions that leak, and functions that only seem to. Each is one allocation site, and all run
 * side by side. `leaky SEED`; commands:
 *
 *      run SECONDS     answers "done" when the time is over
 *
 * Each function is called once a millisecond; time_now() is the share of the run that is over.
 * Blocks to free at a later time hang in `held`, by the millisecond of their free.
 */
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "tests/targets/random.h"
#include "tests/targets/speak.h"

#define TICKS_MAX 600000
#define SITE	  __attribute__((noinline)) static void

struct block {
	struct block *next;
};

static struct block *held[TICKS_MAX];
static void *volatile lost;
static uint64_t seed = 1;
static long tick, ticks; /* of the run */

static double chance(void)
{
	return (double)(next_random(&seed) >> 11) * 0x1p-53;
}

/* How often something happens in this tick that happens `times` times in the run on average;
 * random. */
static int often(double times)
{
	double now = times / (double)ticks;
	return (int)now + (chance() < now - floor(now));
}

static double time_now(void)
{
	return (double)tick / (double)ticks;
}

/* Frees the block at the share `until` of the run: 1 or more is never, a time that is over is the
 * next tick. */
static void hold(void *memory, double until)
{
	struct block *block = memory;
	long at = (long)(until * (double)ticks);
	if (at <= tick)
		at = tick + 1;
	if (at >= ticks)
		return;
	block->next = held[at];
	held[at] = block;
}

static void let_go(void)
{
	for (struct block *block = held[tick], *next; block; block = next) {
		next = block->next;
		free(block);
	}
	held[tick] = NULL;
}

static double exponential(double mean)
{
	return -mean * log(1 - chance());
}

/* ---- leaking ---- */

SITE leak_constant(void)
{
	for (int i = often(300); i--;)
		lost = malloc(100);
}

SITE leak_bursts(void)
{
	for (int i = often(80) * (int)(1 + chance() * 20); i--;)
		lost = malloc(200);
}

SITE leak_one_in_many(void)
{
	for (int i = often(100000); i--;) {
		void *block = malloc(300);
		if (chance() < 0.002)
			lost = block;
		else
			hold(block, 0);
	}
}

SITE leak_from_the_middle(void)
{
	for (int i = often(2000); i--;) {
		void *block = malloc(400);
		if (time_now() > 0.5 && chance() < 0.2)
			lost = block;
		else
			hold(block, 0);
	}
}

SITE leak_within_a_cycle(void)
{
	for (int i = often(20000); i--;) {
		void *block = malloc(500);
		if (chance() < 0.02)
			lost = block;
		else
			hold(block, ceil(time_now() * 8 + 0.3) / 8 - 0.3 / 8);
	}
}

SITE leak_accelerating(void)
{
	for (int i = often(2000 * time_now()); i--;)
		lost = malloc(600);
}

SITE leak_few_large(void)
{
	if (tick % (ticks / 12) == ticks / 24)
		lost = malloc(3 << 20);
}

SITE leak_growing_array(void)
{
	static void *array;
	static size_t used, room;
	for (int i = often(50000); i--; used++)
		if (used == room) {
			room = room ? 2 * room : 16;
			array = realloc(array, 8 * room);
		}
	lost = array;
}

SITE leak_many_tiny(void)
{
	for (int i = often(30000); i--;)
		lost = malloc(16);
}

SITE leak_after_start_up(void)
{
	for (int i = tick ? often(200) : 3000; i--;)
		lost = malloc(700);
}

/* ---- innocent ---- */

SITE calm_full_cache(void)
{
	static int count;
	for (int i = often(4000); i-- && count < 2000; count++)
		lost = malloc(800);
}

SITE calm_saturating(void)
{
	for (int i = often(10000 * exp(-4 * time_now())); i--;)
		lost = malloc(900);
}

SITE calm_queue(void)
{
	static void *queue[2000];
	static int at;
	for (int i = tick < 0 ? 2000 : often(1000); i--; at++) {
		free(queue[at % 2000]);
		queue[at % 2000] = malloc(1600);
	}
}

SITE calm_batch(void)
{
	for (int i = often(5000); i--;)
		hold(malloc(1100), time_now() < 0.41 ? 0.41 : 1);
}

SITE calm_requests(void)
{
	for (int i = often(20000); i--;)
		hold(malloc(1200), time_now() + 0.002 * exp(1.5 * (chance() * 4 - 2)));
}

SITE calm_start_up(void)
{
	for (int i = time_now() < 0.1 ? often(5000) : 0; i--;)
		lost = malloc(1300);
}

SITE calm_hash_table(void)
{
	static void *table;
	static size_t room = 16;
	while (20000 * (1 - exp(-10 * time_now())) > (double)room) {
		room *= 2;
		table = realloc(table, 8 * room);
	}
	lost = table;
}

SITE calm_pool(void)
{
	static int steps;
	for (; steps < 9 && time_now() > steps * 0.06; steps++)
		lost = malloc(1 << 20);
}

SITE calm_wave(void)
{
	for (int i = often(20000 * (1 + sin(2.5 * time_now()))); i--;)
		hold(malloc(1400), time_now() + exponential(0.02));
}

SITE calm_sessions(void)
{
	for (int i = often(4000); i--;)
		hold(malloc(1500), time_now() + exponential(0.3));
}

SITE calm_arena(void)
{
	for (int i = often(500); i--;)
		hold(malloc(5000), ceil(time_now() * 7 + 0.2) / 7 - 0.2 / 7);
}

SITE calm_churn(void)
{
	for (int i = often(200000); i--;)
		hold(malloc(6000), 0);
}

static void (*const sites[])(void) = {
	leak_constant,
	leak_bursts,
	leak_one_in_many,
	leak_from_the_middle,
	leak_within_a_cycle,
	leak_accelerating,
	leak_few_large,
	leak_growing_array,
	leak_many_tiny,
	leak_after_start_up,
	calm_full_cache,
	calm_saturating,
	calm_queue,
	calm_batch,
	calm_requests,
	calm_start_up,
	calm_hash_table,
	calm_pool,
	calm_wave,
	calm_sessions,
	calm_arena,
	calm_churn,
};

static void run(long seconds)
{
	struct timespec next;
	clock_gettime(CLOCK_MONOTONIC, &next);
	ticks = seconds * 1000;
	if (ticks > TICKS_MAX)
		speak_fail("%ld s are too many", seconds);
	for (tick = 0; tick < ticks; tick++) {
		let_go();
		for (size_t i = 0; i < sizeof(sites) / sizeof(sites[0]); i++)
			sites[i]();
		next.tv_nsec += 1000000;
		next.tv_sec += next.tv_nsec / 1000000000;
		next.tv_nsec %= 1000000000;
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
	speak_add("done");
	speak_send();
}

int main(int argc, char **argv)
{
	seed = argc > 1 ? strtoull(argv[1], NULL, 10) | 1 : 1;
	/* The queue is full long before the run. */
	ticks = 1;
	tick = -1;
	calm_queue();
	speak_ready();
	for (const char *command; strcmp(command = speak_hear(), "stop");) {
		if (strncmp(command, "run ", 4))
			speak_fail("no command %s", command);
		run(atol(command + 4));
	}
	_exit(0);
}
