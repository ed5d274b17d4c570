/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/views/suspect.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/views/suspect_growth.h"

#define CHURN_LEAST 16u /* least number of freed blocks */
#define CHURN_SHARE 0.1 /* most survivors, as a share of the blocks */

/* The live bytes of a site as a curve. */
struct curve {
	double most, end, allocated;
	double survivors; /* share of the allocated bytes */
	double excess;	/* (most live blocks - mean live blocks) / the standard deviation by chance
			 */
	uint32_t falls; /* number of falls from the upper third of the range to the lower third */
	double period;	/* mean time between falls, in buckets */
	double fall_spread; /* mean deviation of the times between falls / their mean */
	uint32_t high;	    /* number of buckets in the upper half of the range */
	double kept;	    /* least live bytes of the last third / most live bytes there */
	double turnover;    /* bytes allocated in the last third / most live bytes there */
};

struct number {
	char text[24];
};

static struct number bytes_of(double bytes)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	unsigned unit = 0;
	for (; bytes >= 1000 && unit + 1 < HT_ARRAY_SIZE(units); unit++)
		bytes /= 1024;
	struct number ret;
	snprintf(ret.text, sizeof(ret.text), unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
	return ret;
}

/* "1,234,567" */
static struct number count_of(double count)
{
	struct number digits, ret;
	const size_t length =
		(size_t)snprintf(digits.text, sizeof(digits.text), "%.0f", fmin(count, 1e15));
	size_t to = 0;
	for (size_t i = 0; i < length; i++) {
		if (i && (length - i) % 3 == 0)
			ret.text[to++] = ',';
		ret.text[to++] = digits.text[i];
	}
	ret.text[to] = '\0';
	return ret;
}

static struct number time_of(double seconds)
{
	struct number ret;
	if (seconds >= 120)
		snprintf(ret.text, sizeof(ret.text), "%.0f min", seconds / 60);
	else
		snprintf(ret.text, sizeof(ret.text), seconds < 10 ? "%.1f s" : "%.0f s", seconds);
	return ret;
}

static double total_of(const struct suspect_input *in, const uint64_t *values)
{
	double ret = 0;
	for (uint32_t i = 0; i < in->buckets; i++)
		ret += (double)values[i];
	return ret;
}

static double window_s(const struct suspect_input *in)
{
	return (double)in->bucket_ns * in->buckets / 1e9;
}

static double highest(const struct suspect_input *in, uint32_t from, uint32_t to)
{
	double ret = 0;
	for (uint32_t i = from; i < to; i++)
		ret = fmax(ret, (double)in->live_bytes[i]);
	return ret;
}

static double lowest(const struct suspect_input *in, uint32_t from, uint32_t to)
{
	double ret = highest(in, from, to);
	for (uint32_t i = from; i < to; i++)
		ret = fmin(ret, (double)in->live_bytes[i]);
	return ret;
}

/* Counts falls with hysteresis, so that noise around a level does not count. */
static void count_falls(const struct suspect_input *in, struct curve *curve)
{
	uint32_t first_high = 0, at[SUSPECT_BUCKETS_MAX];
	while (first_high + 1 < in->buckets &&
		(double)in->live_bytes[first_high] < 0.6 * curve->most)
		first_high++;
	double low = lowest(in, first_high, in->buckets), range = curve->most - low;
	if (range < 0.3 * curve->most)
		return;
	bool is_high = false;
	for (uint32_t i = 0; i < in->buckets; i++) {
		double level = ((double)in->live_bytes[i] - low) / range;
		curve->high += level > 0.5;
		if (level > 0.65)
			is_high = true;
		else if (level < 0.35 && is_high) {
			is_high = false;
			at[curve->falls++] = i;
		}
	}
	if (curve->falls < 2)
		return;
	double gaps = curve->falls - 1, mean = (at[curve->falls - 1] - at[0]) / gaps;
	curve->period = mean;
	for (uint32_t i = 1; i < curve->falls; i++)
		curve->fall_spread += fabs(at[i] - at[i - 1] - mean) / mean / gaps;
}

static struct curve curve_of(const struct suspect_input *in)
{
	uint32_t n = in->buckets, late = n - n / 3;
	struct curve ret = {.most = highest(in, 0, n), .end = (double)in->live_bytes[n - 1]};
	double blocks = 0, most_blocks = 0, mean_blocks = 0;
	for (uint32_t i = 0; i < n; i++) {
		blocks += (double)in->allocated_blocks[i] - (double)in->freed_blocks[i];
		most_blocks = fmax(most_blocks, blocks);
		mean_blocks += fmax(0, blocks) / n;
		ret.allocated += (double)in->allocated_bytes[i];
		if (i >= late)
			ret.turnover += (double)in->allocated_bytes[i];
	}
	ret.excess = (most_blocks - mean_blocks) / sqrt(mean_blocks + 1);
	double level = highest(in, late, n);
	ret.survivors = ret.allocated > 0 ? ret.end / ret.allocated : 0;
	ret.turnover = level > 0 ? ret.turnover / level : 0;
	ret.kept = level > 0 ? lowest(in, late, n) / level : 0;
	count_falls(in, &ret);
	return ret;
}

/* Mean lifetime in seconds; the window's length if no block was freed. */
static double mean_life(const struct suspect_input *in)
{
	double freed = (double)in->freed_total_blocks;
	return freed > 0 ? (double)in->lifetime_ns_total / freed / 1e9 : window_s(in);
}

/* Live bytes vary more than independent blocks do by chance, or regularly with blocks that live for
 * much of a period. */
static bool is_periodic(const struct suspect_input *in, const struct curve *curve)
{
	if (curve->falls < 2 || curve->falls > in->buckets / 4)
		return false;
	if (curve->excess > 6)
		return curve->fall_spread < 0.4;
	double life = mean_life(in) * 1e9 / (double)in->bucket_ns;
	return curve->falls > 2 && curve->fall_spread < 0.15 && life > 0.2 * curve->period;
}

static bool is_spike(const struct suspect_input *in, const struct curve *curve)
{
	return curve->falls == 1 && curve->high <= in->buckets / 4 &&
	       curve->end < 0.35 * curve->most &&
	       (curve->excess > 6 || curve->most > 0.4 * curve->allocated);
}

/* The live bytes of the last third are level, and less than three times as many bytes are allocated
 * in it. */
static bool is_plateau(const struct curve *curve)
{
	return curve->kept > 0.75 && curve->turnover < 3;
}

/* Most blocks are freed again, and at least CHURN_LEAST were. */
static bool is_churn(const struct suspect_input *in, const struct curve *curve)
{
	return in->freed_total_blocks >= CHURN_LEAST &&
	       (curve->survivors < CHURN_SHARE ||
		       (curve->turnover >= 1 && mean_life(in) < window_s(in) / 4 &&
			       curve->survivors < 0.3));
}

static void set(struct suspect *ret, enum suspect_class class, double confidence)
{
	ret->class = class;
	ret->confidence = round(100 * fmax(0, fmin(1, confidence))) / 100;
}

#define SAY(ret, ...) snprintf((ret)->text, sizeof((ret)->text), __VA_ARGS__)

static void say_growing(const struct growth *growth, struct suspect *ret)
{
	ret->slope_bytes_per_s = growth->slope_bytes_per_s;
	set(ret, SUSPECT_GROWING, growth->confidence);
	if (growth->by_resizing)
		SAY(ret, "Grows by %s a minute: the same blocks were enlarged in %.0f steps.",
			bytes_of(growth->slope_bytes_per_s * 60).text, growth->blocks);
	else if (growth->by_backlog)
		SAY(ret, "Grows by %s a minute: blocks are freed, but more slowly than allocated.",
			bytes_of(growth->slope_bytes_per_s * 60).text);
	else
		SAY(ret, "Grows by %s a minute: %s blocks allocated over %s stay.",
			bytes_of(growth->slope_bytes_per_s * 60).text,
			count_of(growth->blocks).text, time_of(growth->span_s).text);
}

static void say_few(const struct suspect_input *in, struct suspect *ret)
{
	const double allocated = total_of(in, in->allocated_blocks);
	const double left = total_of(in, in->surviving_blocks);
	SAY(ret, "Unclear: only %.0f %s allocated, of which %.0f %s left; record longer.",
		allocated, allocated == 1 ? "block was" : "blocks were", left,
		left == 1 ? "is" : "are");
}

static void say_unclear(const struct suspect_input *in, const struct growth *growth,
	const struct curve *curve, struct suspect *ret)
{
	set(ret, SUSPECT_UNCLEAR, 0.5);
	if (growth->finding != GROWTH_SHORT && growth->finding != GROWTH_FEW &&
		total_of(in, in->allocated_blocks) < CHURN_LEAST) {
		say_few(in, ret);
		return;
	}
	switch (growth->finding) {
	case GROWTH_SHORT:
		SAY(ret, "Unclear: a window of %s is too short; record for a minute or more.",
			time_of(in->window_ns ? (double)in->window_ns / 1e9 : window_s(in)).text);
		break;
	case GROWTH_LESS_WORK:
		SAY(ret, "Unclear: it grows more and more slowly, as the program does less; record "
			 "longer.");
		break;
	case GROWTH_FEW:
		SAY(ret, "Unclear: %s %s too few; record longer.", count_of(growth->blocks).text,
			growth->blocks == 1 ? "block that stays is" : "blocks that stay are");
		break;
	case GROWTH_LATE:
		SAY(ret, "Unclear: it grows since %s only; record longer.",
			time_of(growth->span_s).text);
		break;
	case GROWTH_MAY_END:
		SAY(ret, "Unclear: blocks live up to %s and are freed then; record longer.",
			time_of((double)in->lifetime_max_ns / 1e9).text);
		break;
	case GROWTH_IN_CYCLE:
		SAY(ret, "Unclear: it grows since all blocks were freed at once; record longer.");
		break;
	case GROWTH_IN_BALANCE:
		SAY(ret,
			"Unclear: as many blocks of these sizes from before the window%s were "
			"freed.",
			in->paused_ns ? " or a pause" : "");
		break;
	case GROWTH_FOUND:
	case GROWTH_NONE:
	case GROWTH_STOPPED:
	case GROWTH_SLOWS:
		SAY(ret,
			"Unclear: blocks are freed, and live bytes changed from %s at most to "
			"%s.",
			bytes_of(curve->most).text, bytes_of(curve->end).text);
		break;
	}
}

static void classify_level(const struct suspect_input *in, const struct growth *growth,
	const struct curve *curve, struct suspect *ret)
{
	enum growth_finding finding = growth->finding;
	bool is_short = finding == GROWTH_SHORT;
	if (is_periodic(in, curve)) {
		set(ret, SUSPECT_PERIODIC, 1 - curve->fall_spread);
		SAY(ret, "Rises and falls again: %u times, up to %s.", curve->falls,
			bytes_of(curve->most).text);
	} else if (is_spike(in, curve)) {
		set(ret, SUSPECT_SPIKE, 1 - curve->end / curve->most);
		SAY(ret, "One spike of %s, freed since.", bytes_of(curve->most).text);
	} else if (finding == GROWTH_STOPPED && !is_churn(in, curve)) {
		set(ret, SUSPECT_PLATEAU, 0.9);
		SAY(ret, "Stopped growing %s before the end, at %s.",
			time_of(growth->last_age_s + (double)in->idle_ns / 1e9).text,
			bytes_of(curve->end).text);
	} else if (finding == GROWTH_SLOWS && !is_churn(in, curve)) {
		set(ret, SUSPECT_PLATEAU, 0.6);
		SAY(ret, "Fills up: it grows more and more slowly, to %s at the end.",
			bytes_of(curve->end).text);
	} else if (!is_short && finding != GROWTH_FEW && finding != GROWTH_LATE &&
		   finding != GROWTH_LESS_WORK && is_plateau(curve)) {
		set(ret, SUSPECT_PLATEAU, curve->kept);
		SAY(ret, "Stays at %s.", bytes_of(curve->end).text);
	} else if (is_churn(in, curve) && (!is_short || curve->survivors < CHURN_SHARE)) {
		set(ret, SUSPECT_CHURN, 1 - curve->survivors);
		SAY(ret, "Blocks are freed: of %s allocated, %s are left.",
			bytes_of(curve->allocated).text, bytes_of(curve->end).text);
	} else
		say_unclear(in, growth, curve, ret);
}

static uint64_t oldest_of(const struct suspect_input *in)
{
	for (uint32_t i = 0; i < in->buckets; i++)
		if (in->surviving_blocks[i])
			return (in->buckets - i) * in->bucket_ns + in->idle_ns;
	return 0;
}

/*
 * In a pause, frees are recorded but new blocks are not. A site with constant live bytes therefore
 * seems to fall and then to rise again.
 */
static void mind_pauses(const struct suspect_input *in, struct suspect *ret)
{
	if (!in->paused_ns)
		return;
	struct number paused = time_of((double)in->paused_ns / 1e9);
	if (ret->class == SUSPECT_SPIKE || ret->class == SUSPECT_PERIODIC) {
		set(ret, SUSPECT_UNCLEAR, 0.5);
		SAY(ret,
			"Unclear: recording was paused for %s; what was freed then may have been "
			"replaced.",
			paused.text);
		return;
	}
	size_t length = strlen(ret->text);
	snprintf(ret->text + length, sizeof(ret->text) - length, " Recording was paused for %s.",
		paused.text);
}

static void classify(const struct suspect_input *input, struct suspect *ret)
{
	*ret = (struct suspect){.class = SUSPECT_UNCLEAR};
	if (!input->buckets || !input->bucket_ns || input->buckets > SUSPECT_BUCKETS_MAX) {
		SAY(ret, "Unclear: the window is too short; record for a minute or more.");
		return;
	}
	ret->oldest_ns = oldest_of(input);
	struct growth growth;
	growth_measure(input, &growth);
	if (growth.finding == GROWTH_FOUND) {
		say_growing(&growth, ret);
		return;
	}
	struct curve curve = curve_of(input);
	if (curve.allocated > 0)
		classify_level(input, &growth, &curve, ret);
	else
		SAY(ret, "Unclear: nothing was allocated in the window.");
}

void suspect_classify(const struct suspect_input *input, struct suspect *ret)
{
	classify(input, ret);
	mind_pauses(input, ret);
}

void suspect_survives(
	uint64_t held, uint64_t outstanding, uint64_t settle_ns, struct suspect *suspect)
{
	if (!held || suspect->class != SUSPECT_UNCLEAR)
		return;
	set(suspect, SUSPECT_SURVIVOR, (double)held / (double)(outstanding ? outstanding : held));
	SAY(suspect, "Held %s after the window: %s of %s blocks.",
		time_of((double)settle_ns / 1e9).text, count_of((double)held).text,
		count_of((double)outstanding).text);
}

const char *suspect_class_name(enum suspect_class class)
{
	static const char *const names[SUSPECT_CLASS_COUNT] = {
		[SUSPECT_GROWING] = "growing",
		[SUSPECT_SURVIVOR] = "survivor",
		[SUSPECT_PLATEAU] = "plateau",
		[SUSPECT_SPIKE] = "spike",
		[SUSPECT_PERIODIC] = "periodic",
		[SUSPECT_CHURN] = "churn",
		[SUSPECT_UNCLEAR] = "unclear",
	};
	return (unsigned)class < SUSPECT_CLASS_COUNT ? names[class] : "unclear";
}
