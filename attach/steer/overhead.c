/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/steer/overhead.h"

#define MS	      1000000ull
#define LOOK_NS	      (100 * MS)
#define RECORD_MIN_NS (200 * MS)
#define PAUSE_MIN_NS  (1000 * MS)
/* A pause lasts at least this part of the capture so far: 30 days have some 2,000 pauses. */
#define PAUSE_PART 200u
/* The balance holds at most what this many of the shortest pauses add. */
#define SAVED_PAUSES 2u

bool overhead_is_due(const struct overhead *overhead, uint64_t now_ns)
{
	return overhead->limit_ppm &&
	       (!overhead->start.now_ns || now_ns >= overhead->last.now_ns + LOOK_NS);
}

static uint64_t pause_min_ns(const struct overhead *overhead)
{
	const uint64_t part = (overhead->last.now_ns - overhead->start.now_ns) / PAUSE_PART;
	return part > PAUSE_MIN_NS ? part : PAUSE_MIN_NS;
}

static int64_t share_of(uint64_t ns, uint64_t ppm)
{
	return (int64_t)((double)ns * (double)ppm / OVERHEAD_WHOLE);
}

static uint64_t ppm_of(uint64_t events, uint64_t cpu_ns)
{
	const double ppm =
		cpu_ns ? (double)events * OVERHEAD_EVENT_NS / (double)cpu_ns * OVERHEAD_WHOLE : 0;
	return ppm < 1e9 ? (uint64_t)ppm : 1000000000;
}

/* The increase of a counter; 0 if it went back. */
static uint64_t grown(uint64_t now, uint64_t then)
{
	return now > then ? now - then : 0;
}

static void begin(struct overhead *overhead, const struct overhead_look *look)
{
	overhead->start = overhead->last = *look;
	overhead->since_ns = look->now_ns;
	/* Begin with the balance of a target that keeps one processor busy. */
	overhead->most_ns = share_of(SAVED_PAUSES * PAUSE_MIN_NS, overhead->limit_ppm);
	overhead->balance_ns = overhead->most_ns;
}

/* Adds to the balance, and takes from it, what happened since the last look. */
static void account(struct overhead *overhead, const struct overhead_look *look)
{
	const uint64_t took_ns = grown(look->now_ns, overhead->last.now_ns);
	const uint64_t cpu_ns = grown(look->cpu_ns, overhead->last.cpu_ns);
	const uint64_t events = grown(look->events, overhead->last.events);
	if (!took_ns)
		return;
	overhead->last = *look;
	const double saves = SAVED_PAUSES * (double)pause_min_ns(overhead);
	const int64_t most =
		share_of((uint64_t)(saves * (double)cpu_ns / (double)took_ns), overhead->limit_ppm);
	/* A moving mean over eight looks; an idle target keeps what it has saved up. */
	overhead->most_ns += cpu_ns ? (most - overhead->most_ns) / 8 : 0;
	overhead->balance_ns +=
		share_of(cpu_ns, overhead->limit_ppm) - (int64_t)(events * OVERHEAD_EVENT_NS);
	/* Limit the debt, too: a load that is over must not keep recording paused for long. */
	if (overhead->balance_ns > overhead->most_ns)
		overhead->balance_ns = overhead->most_ns;
	if (overhead->balance_ns < -overhead->most_ns)
		overhead->balance_ns = -overhead->most_ns;
	if (cpu_ns)
		overhead->ppm = (7 * overhead->ppm + ppm_of(events, cpu_ns)) / 8;
}

bool overhead_judge(struct overhead *overhead, const struct overhead_look *look)
{
	if (!overhead->limit_ppm)
		return false;
	if (!overhead->start.now_ns) {
		begin(overhead, look);
		return false;
	}
	account(overhead, look);
	const uint64_t lasts_ns = grown(look->now_ns, overhead->since_ns);
	const bool was_paused = overhead->is_paused;
	if (!was_paused && overhead->balance_ns <= 0 && lasts_ns >= RECORD_MIN_NS)
		overhead->is_paused = true;
	else if (was_paused && overhead->balance_ns >= overhead->most_ns / 2 &&
		 overhead->most_ns > 0 && lasts_ns >= pause_min_ns(overhead) &&
		 overhead->pauses < OVERHEAD_PAUSES)
		overhead->is_paused = false;
	if (overhead->is_paused == was_paused)
		return was_paused;
	overhead->since_ns = look->now_ns;
	overhead->pauses += overhead->is_paused;
	return overhead->is_paused;
}

uint64_t overhead_mean_ppm(const struct overhead *overhead)
{
	return ppm_of(grown(overhead->last.events, overhead->start.events),
		grown(overhead->last.cpu_ns, overhead->start.cpu_ns));
}
