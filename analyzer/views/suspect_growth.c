/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/views/suspect_growth.h"

#include <math.h>
#include <stdlib.h>

#include "analyzer/views/suspect_trend.h"

/* Thresholds; analyzer/views/DESIGN.md (Suspects) gives their reasons. */
#define SEGMENTS 32u
#define CLIP	 2.0 /* a segment counts as at most this many median segments */

#define WINDOW_MIN_S   8.0
#define BUCKETS_MIN    16u
#define EVENTS_MIN     8.0
#define SPAN_MIN_S     4.0
#define SPAN_MIN_SHARE 0.2 /* of the window */

#define REGULAR_LEAST  5u /* similar bursts; one more if below EVENTS_MIN blocks */
#define REGULAR_MOST   16u
#define REGULAR_STRAY  0.2 /* of the mean time between bursts; half if below EVENTS_MIN blocks */
#define REGULAR_WITHIN 40u /* blocks at most 1/40 of the window apart belong to one burst */

#define OLD_LIVES	2.0 /* times the longest life of a freed block: an older survivor is old */
#define OLD_LIVES_MANY	1.2 /* as OLD_LIVES, with at least: */
#define OLD_MANY_BLOCKS 30.0
#define OLD_MANY_EVENTS 12.0
#define SETTLED_WINDOWS 6.0
#define FLAT_BLOCKS	200.0 /* least survivors in each of the two oldest quarters */
#define FLAT_SHARE	0.8

#define WORK_LEAST	       10.0 /* least ratio of work (blocks) to survivors */
#define WORK_RATIO_LEAST       0.5  /* work: least last third / first third */
#define WORK_LOW_RATIO_LEAST   0.1  /* WORK_RATIO_LEAST if one half is level, which is: */
#define WORK_LEVEL_RATIO_LEAST 0.65
#define KEPT_RATIO_LEAST       (2 / 3.0)

#define SILENCE_GAPS	   3.0
#define SILENCE_SHARE	   0.3	/* most silence, as a share of the span */
#define SILENCE_LEAST	   0.06 /* of the window */
#define SILENCE_LEAST_S	   2.0
#define BALANCE_LEAST	   0.4 /* least frees of older blocks / survivors */
#define BALANCE_MOST	   5.0
#define CYCLE_BLOCKS_LEAST 0.02 /* least blocks before the cycle's end / old survivors */
#define CYCLE_LIVES	   10.0 /* longest lives after which no end of a cycle is expected */

#define RESIZE_STEP   1.1 /* least factor between two steps */
#define RESIZE_STEPS  5u
#define RESIZE_FACTOR 3.0 /* least factor from the first step to the last */
#define RESIZE_SLOWER 1.4 /* a step may take this many times as long as with a steady flow */

#define BACKLOG_LOAD   1.2 /* most ratio of allocations, first and last third */
#define BACKLOG_BLOCKS 50.0
#define BACKLOG_STRAY  0.2 /* most deviation from a straight line, as a share of the rise */

/* The blocks of one site, by bucket of allocation, as far as their lives are known. */
struct survey {
	const struct suspect_input *in;
	uint32_t n;
	double bucket_s, window_s;
	double settle;	/* settle time in buckets: adds to the age */
	double longest; /* longest life of a freed block, in buckets */
	double mean;	/* mean life of the freed blocks, in buckets */
	double freed;	/* number of freed blocks */
	uint32_t end; /* survivors allocated before this bucket are old: they outlived the others */
	uint32_t first, last;	  /* bucket of the first and last old survivor */
	double old;		  /* blocks that are old survivors */
	double events;		  /* independent events among them */
	double trust;		  /* confidence that they are old */
	uint32_t segments;	  /* equal parts of first..end */
	double segment[SEGMENTS]; /* old survivors per bucket, outliers clipped */
};

static double sum_of(const uint64_t *values, uint32_t from, uint32_t to)
{
	double ret = 0;
	for (uint32_t i = from; i < to; i++)
		ret += (double)values[i];
	return ret;
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median_of(double *values, size_t count)
{
	qsort(values, count, sizeof(*values), compare_doubles);
	return count ? (values[(count - 1) / 2] + values[count / 2]) / 2 : 0;
}

static uint32_t segment_begin(const struct survey *survey, uint32_t segment)
{
	uint64_t length = survey->end - survey->first;
	return survey->first + (uint32_t)(length * segment / survey->segments);
}

/* Limits each segment to CLIP median segments, so that a burst at start-up does not hide steady
 * growth. */
static void clip(struct survey *survey)
{
	double used[SEGMENTS];
	uint32_t count = 0;
	for (uint32_t i = 0; i < survey->segments; i++)
		if (survey->segment[i] > 0)
			used[count++] = survey->segment[i];
	double most = CLIP * median_of(used, count);
	for (uint32_t i = 0; i < survey->segments; i++)
		survey->segment[i] = fmin(survey->segment[i], most);
	double sum = 0, squares = 0;
	for (uint32_t i = survey->first; i < survey->end; i++) {
		double value = fmin((double)survey->in->surviving_blocks[i], fmax(1, most));
		sum += value;
		squares += value * value;
	}
	survey->events = squares > 0 ? sum * sum / squares : 0;
}

/* Old survivors are those allocated before bucket `end`. */
static void gather(struct survey *survey, uint32_t end)
{
	const uint64_t *blocks = survey->in->surviving_blocks;
	survey->end = end;
	survey->first = end;
	survey->old = sum_of(blocks, 0, end);
	for (uint32_t i = 0; i < end; i++)
		if (blocks[i]) {
			survey->last = i;
			if (survey->first == end)
				survey->first = i;
		}
	uint32_t length = end - survey->first;
	survey->segments = length < SEGMENTS ? length : SEGMENTS;
	for (uint32_t i = 0; i < survey->segments; i++) {
		uint32_t from = segment_begin(survey, i), to = segment_begin(survey, i + 1);
		survey->segment[i] = sum_of(blocks, from, to) / (to - from);
	}
	clip(survey);
}

/* The share of survivors among the blocks allocated in buckets [from, to). */
static double survival(const struct survey *survey, uint32_t from, uint32_t to)
{
	double allocated = sum_of(survey->in->allocated_blocks, from, to);
	return allocated > 0 ? sum_of(survey->in->surviving_blocks, from, to) / allocated : 0;
}

/* Whether blocks older than half the window are practically never freed: as many survive of the
 * oldest quarter as of the next. */
static bool is_flat(const struct survey *survey)
{
	const uint64_t *blocks = survey->in->surviving_blocks;
	uint32_t quarter = survey->n / 4, half = survey->n / 2;
	double oldest = sum_of(blocks, 0, quarter), older = sum_of(blocks, quarter, half);
	if (survey->in->is_sample || oldest < FLAT_BLOCKS || older < FLAT_BLOCKS ||
		survey->mean > survey->n / 8.0)
		return false;
	double ratio = survival(survey, 0, quarter) / survival(survey, quarter, half);
	return ratio - 2 * ratio * sqrt(1 / oldest + 1 / older) > FLAT_SHARE;
}

/* Finds an age beyond which blocks are freed at most once in SETTLED_WINDOWS windows, by the upper
 * bound of that rate, because a few late frees do not show that all others will be freed. */
static bool find_settled(const struct survey *survey, uint32_t *ret)
{
	const struct suspect_input *in = survey->in;
	if (!in->freed_by_age || in->is_sample)
		return false;
	for (uint32_t age = survey->n / 32 + 1; age <= survey->n / 2; age *= 2) {
		double freed = sum_of(in->freed_by_age, age, survey->n), windows = 0;
		for (uint32_t i = 0; i < survey->n; i++)
			windows += (double)in->surviving_blocks[i] *
				   fmax(0, survey->n + survey->settle - age - i) / survey->n;
		*ret = age;
		if (SETTLED_WINDOWS * (freed + 2 * sqrt(freed) + 3) <= windows)
			return true;
	}
	return false;
}

/* Finds survivors older than any freed block of this site. False: no age is sufficient evidence. */
static bool find_old(struct survey *survey)
{
	if (survey->freed <= 0) {
		survey->trust = 1;
		gather(survey, survey->n);
		return true;
	}
	double age = fmax(0, OLD_LIVES * survey->longest + 1 - survey->settle);
	if (age <= survey->n / 2.0) {
		survey->trust = 1;
		gather(survey, survey->n - (uint32_t)age);
		return true;
	}
	age = fmax(0, OLD_LIVES_MANY * survey->longest + 1 - survey->settle);
	if (age < (1 - SPAN_MIN_SHARE) * survey->n && survey->mean <= survey->n / 4.0) {
		survey->trust = 0.9;
		gather(survey, survey->n - (uint32_t)age);
		if (survey->old >= OLD_MANY_BLOCKS && survey->events >= OLD_MANY_EVENTS)
			return true;
	}
	survey->trust = 0.8;
	uint32_t settled;
	if (find_settled(survey, &settled)) {
		gather(survey, survey->n - (uint32_t)fmax(0, settled - survey->settle));
		return true;
	}
	gather(survey, survey->n / 2);
	return is_flat(survey);
}

/* Whether the work in segments [from, to) is level: the lower bound of its trend_ratio decides. The
 * work is assumed to have as many independent events as there are survivors. */
static bool is_level(const struct survey *survey, const double *work, uint32_t from, uint32_t to)
{
	const uint32_t third = (to - from) / 3;
	const uint64_t *blocks = survey->in->surviving_blocks;
	double first =
		sum_of(blocks, segment_begin(survey, from), segment_begin(survey, from + third));
	double last = sum_of(blocks, segment_begin(survey, to - third), segment_begin(survey, to));
	double ratio = trend_ratio(work + from, to - from);
	if (first <= 0 || last <= 0)
		return false;
	return ratio - 2.5 * ratio * sqrt(1 / first + 1 / last) >= WORK_LEVEL_RATIO_LEAST;
}

/* Whether growth goes on although the work slows: the work falls to no less than half, or it falls
 * once from one level to another. A steady fall would also fit the misses of a cache that fills. */
static bool goes_on(const struct survey *survey, const double *work)
{
	const uint32_t count = survey->segments, half = count / 2;
	const double ratio = trend_ratio(work, count);
	return ratio >= WORK_RATIO_LEAST ||
	       (ratio >= WORK_LOW_RATIO_LEAST &&
		       (is_level(survey, work, 0, half) || is_level(survey, work, half, count)));
}

/* Judges a site whose growth slows. If its growth per unit of the program's work is constant, only
 * the program works less: its machine or its clients are busy. */
static enum growth_finding judge_slower(const struct survey *survey)
{
	const uint64_t *blocks = survey->in->work_blocks;
	double work[SEGMENTS], kept[SEGMENTS], sum = 0;
	for (uint32_t i = 0; i < survey->segments; i++) {
		uint32_t from = segment_begin(survey, i), to = segment_begin(survey, i + 1);
		work[i] = blocks ? sum_of(blocks, from, to) / (to - from) : 0;
		if (work[i] <= 0)
			return GROWTH_SLOWS;
		kept[i] = survey->segment[i] / work[i];
		sum += work[i] * (to - from);
	}
	if (sum < WORK_LEAST * survey->old ||
		trend_ratio(kept, survey->segments) < KEPT_RATIO_LEAST ||
		trend_slows(kept, survey->segments, survey->events))
		return GROWTH_SLOWS;
	return goes_on(survey, work) ? GROWTH_FOUND : GROWTH_LESS_WORK;
}

/* Whether growth has stopped: there is no old survivor for much longer than any gap before, or
 * young survivors are far fewer than the rate of old ones predicts. */
static bool has_stopped(const struct survey *survey)
{
	const uint64_t *blocks = survey->in->surviving_blocks;
	double gap = 1, silence = survey->end - 1 - survey->last;
	for (uint32_t i = survey->first, since = i; i <= survey->last; i++)
		if (blocks[i]) {
			gap = fmax(gap, i - since);
			since = i;
		}
	double span = survey->end - survey->first;
	double least = fmax(SILENCE_LEAST_S / survey->bucket_s, SILENCE_LEAST * survey->n);
	if (silence > fmin(SILENCE_SHARE * span, fmax(SILENCE_GAPS * gap, least)))
		return true;
	double rate = 0;
	for (uint32_t i = 0; i < survey->segments; i++)
		rate += survey->segment[i] / survey->segments;
	double expected = rate * (survey->n - survey->end);
	return expected * fmin(1, survey->events / survey->old) >= 20 &&
	       sum_of(blocks, survey->end, survey->n) < expected / 3;
}

/* Whether about as many blocks older than the window are freed as survive, all the time: then the
 * site is a queue whose blocks live longer than the window. Far more such frees come from another
 * site. */
static bool is_balanced(const struct survey *survey)
{
	const uint64_t *older = survey->in->older_freed_blocks;
	if (!older)
		return false;
	uint32_t n = survey->n, third = n / 3;
	double rate = survey->old / (survey->end - survey->first);
	double late = sum_of(older, n - third, n), most = sum_of(older, third, n);
	return late >= BALANCE_LEAST * rate * third && most >= BALANCE_LEAST * rate * (n - third) &&
	       most <= BALANCE_MOST * rate * (n - third);
}

/* Whether blocks from before the window and blocks of the window were freed at one moment. If so,
 * the window began within a cycle. */
static bool ended_older_cycle(const struct survey *survey)
{
	const uint64_t *older = survey->in->older_freed_blocks;
	uint32_t most = 0;
	for (uint32_t i = 0; older && i < survey->n; i++)
		most = older[i] > older[most] ? i : most;
	if (most < 2 || most + 2 >= survey->n || survival(survey, most + 2, survey->n) < 0.5)
		return false;
	/* The site must have had blocks by then; otherwise the frees belong to another site. */
	double before = sum_of(survey->in->allocated_blocks, 0, most);
	return sum_of(older, most - 1, most + 2) >= 0.3 * survey->old &&
	       before >= CYCLE_BLOCKS_LEAST * survey->old &&
	       sum_of(survey->in->freed_blocks, most - 1, most + 2) >= 0.5 * before;
}

/* Whether all survivors are younger than a moment at which the site freed all its blocks, and most
 * blocks allocated since survive. If so, the next such moment may still come. */
static bool is_within_cycle(const struct survey *survey)
{
	const struct suspect_input *in = survey->in;
	uint32_t begin = 0;
	double seen = 0, live = 0, most = 0;
	for (; begin < survey->end; begin++) {
		seen += (double)in->surviving_blocks[begin];
		if (seen > 0.02 * survey->old)
			break;
		live += (double)in->allocated_blocks[begin] - (double)in->freed_blocks[begin];
		most = fmax(most, live);
	}
	if (begin < 0.5 * survey->longest || survey->freed <= 0 ||
		survey->n - begin > CYCLE_LIVES * survey->longest)
		return false;
	return most - seen >= 0.05 * survey->old && survival(survey, begin, survey->n) >= 0.5;
}

/* Sen's slope: the median of all slopes between two points of the running sum of old survivors. */
static double slope_of(const struct survey *survey)
{
	double slope[SEGMENTS * (SEGMENTS + 1) / 2], sum[SEGMENTS + 1] = {0};
	uint32_t at[SEGMENTS + 1] = {survey->first};
	size_t count = 0;
	for (uint32_t i = 0; i < survey->segments; i++) {
		at[i + 1] = segment_begin(survey, i + 1);
		sum[i + 1] = sum[i] + sum_of(survey->in->surviving_bytes, at[i], at[i + 1]);
	}
	for (uint32_t i = 0; i <= survey->segments; i++)
		for (uint32_t k = i + 1; k <= survey->segments; k++)
			slope[count++] = (sum[k] - sum[i]) / (at[k] - at[i]);
	return median_of(slope, count) / survey->bucket_s;
}

/* Largest deviation of the running sum of old survivors from a straight line, 0..1. */
static double unsteadiness(const struct survey *survey)
{
	double total = 0, sum = 0, most = 0;
	for (uint32_t i = 0; i < survey->segments; i++)
		total += survey->segment[i];
	for (uint32_t i = 0; i < survey->segments; i++) {
		sum += survey->segment[i];
		most = fmax(most, fabs(sum / total - (i + 1.0) / survey->segments));
	}
	return most;
}

struct bursts {
	uint32_t count, at[REGULAR_MOST + 1];
	double blocks[REGULAR_MOST + 1];
};

static void find_bursts(const struct survey *survey, struct bursts *ret)
{
	const uint64_t *blocks = survey->in->surviving_blocks;
	ret->count = 0;
	for (uint32_t i = survey->first, since = i; i <= survey->last; i++) {
		if (!blocks[i])
			continue;
		if (!ret->count || i - since > survey->n / REGULAR_WITHIN) {
			if (ret->count == HT_ARRAY_SIZE(ret->at))
				return;
			ret->blocks[ret->count] = 0;
			ret->at[ret->count++] = i;
		}
		ret->blocks[ret->count - 1] += (double)blocks[i];
		since = i;
	}
}

/* Whether the end of the window may have cut the last burst. */
static bool is_cut(const struct survey *survey, const struct bursts *bursts)
{
	return survey->n - survey->last <= survey->n / REGULAR_WITHIN && bursts->count > 1;
}

/* A few bursts are evidence if they are regular throughout the window and of similar size. */
static bool is_regular(const struct survey *survey)
{
	struct bursts bursts;
	find_bursts(survey, &bursts);
	const bool is_sparse = survey->old < EVENTS_MIN;
	const uint32_t enough = REGULAR_LEAST + is_sparse;
	const double stray = is_sparse ? REGULAR_STRAY / 2 : REGULAR_STRAY;
	if (bursts.count < enough || bursts.count > REGULAR_MOST)
		return false;
	const uint32_t whole = bursts.count - is_cut(survey, &bursts);
	double least = bursts.blocks[0], most = least;
	double mean = (double)(bursts.at[bursts.count - 1] - bursts.at[0]) / (bursts.count - 1);
	for (uint32_t i = 1; i < bursts.count; i++) {
		if (i < whole)
			least = fmin(least, bursts.blocks[i]);
		most = fmax(most, bursts.blocks[i]);
		if (fabs(bursts.at[i] - bursts.at[i - 1] - mean) > stray * mean)
			return false;
	}
	double late = (1 + REGULAR_STRAY) * mean;
	return 2 * least >= most && survey->first <= late && survey->end - survey->last <= late;
}

static double confidence_of(const struct survey *survey)
{
	double span = (double)(survey->end - survey->first) / survey->n;
	double ret = survey->events / (survey->events + 3) * (1 - unsteadiness(survey)) *
		     survey->trust * (0.6 + 0.4 * span);
	return survey->in->is_sample ? 0.9 * ret : ret;
}

static enum growth_finding judge(struct survey *survey)
{
	double span = survey->end - survey->first;
	if (survey->old <= 0)
		return GROWTH_NONE;
	if (has_stopped(survey))
		return GROWTH_STOPPED;
	if (trend_slows(survey->segment, survey->segments, survey->events)) {
		enum growth_finding slower = judge_slower(survey);
		if (slower != GROWTH_FOUND)
			return slower;
		survey->trust *= 0.7;
	}
	if ((survey->old < EVENTS_MIN || survey->events < EVENTS_MIN) && !is_regular(survey))
		return GROWTH_FEW;
	if (span < SPAN_MIN_SHARE * survey->n || span * survey->bucket_s < SPAN_MIN_S)
		return GROWTH_LATE;
	if (is_within_cycle(survey) || ended_older_cycle(survey))
		return GROWTH_IN_CYCLE;
	return is_balanced(survey) ? GROWTH_IN_BALANCE : GROWTH_FOUND;
}

struct step {
	double at, bytes;
};

/* A level is the least live bytes from a bucket to the end of the window. Finds the steps of the
 * level, at most the last SEGMENTS. Steps before the number of blocks last rose, or before live
 * bytes last stood far above the level, are dropped. Returns their number. */
static uint32_t find_steps(const struct suspect_input *in, struct step *step)
{
	double least[SUSPECT_BUCKETS_MAX], live = 0, blocks = 0;
	for (uint32_t i = in->buckets; i--;)
		least[i] = i + 1 < in->buckets ? fmin((double)in->live_bytes[i], least[i + 1])
					       : (double)in->live_bytes[i];
	uint32_t count = 0;
	for (uint32_t i = 0; i < in->buckets; i++) {
		live += (double)in->allocated_blocks[i] - (double)in->freed_blocks[i];
		bool is_left = (double)in->live_bytes[i] <= 1.5 * least[i];
		if (!is_left || live > 1.2 * blocks)
			count = 0;
		blocks = count ? blocks : live;
		if (!is_left || least[i] <= 0 ||
			(count && least[i] < RESIZE_STEP * step[count - 1].bytes))
			continue;
		if (count == SEGMENTS) {
			for (uint32_t k = 1; k < SEGMENTS; k++)
				step[k - 1] = step[k];
			count--;
		}
		step[count++] = (struct step){i, least[i]};
	}
	return count;
}

/* Whether the site already held half of `most` before its first step and freed it. If so, the steps
 * are a buffer that is filled and emptied. */
static bool was_emptied(const struct suspect_input *in, const struct step *first, double most)
{
	for (uint32_t i = 0; i < (uint32_t)first->at; i++)
		if (2 * (double)in->live_bytes[i] >= most)
			return true;
	return false;
}

/* Detects arrays that grow because a steady flow fills them: each of the last steps lasts as long
 * as the room that it added suffices, and the next step is not overdue. */
static bool measure_resizing(const struct survey *survey, struct growth *ret)
{
	struct step step[SEGMENTS];
	uint32_t count = find_steps(survey->in, step);
	if (count < RESIZE_STEPS || step[count - 1].bytes < RESIZE_FACTOR * step[0].bytes ||
		was_emptied(survey->in, &step[0], step[count - 1].bytes))
		return false;
	for (uint32_t i = count - 2; i <= count; i++) {
		double room = step[i - 1].bytes - step[i - 2].bytes;
		double before = step[i - 2].bytes - step[i - 3].bytes;
		double expected = (step[i - 1].at - step[i - 2].at) * room / before;
		double took = (i < count ? step[i].at : survey->n) - step[i - 1].at;
		if (took > RESIZE_SLOWER * expected + 2)
			return false;
	}
	double bytes = step[count - 1].bytes - step[0].bytes;
	ret->span_s = (step[count - 1].at - step[0].at) * survey->bucket_s;
	ret->slope_bytes_per_s = bytes / ret->span_s;
	ret->blocks = count;
	ret->by_resizing = true;
	ret->confidence = 0.6 * count / (count + 4.0);
	return ret->span_s >= SPAN_MIN_SHARE * survey->window_s;
}

/* Finds the least number of live blocks in each of `parts` equal parts of the window. */
static void find_troughs(const struct suspect_input *in, uint32_t parts, double *trough)
{
	double live = 0;
	for (uint32_t i = 0, part = 0; i < in->buckets; i++) {
		live += (double)in->allocated_blocks[i] - (double)in->freed_blocks[i];
		bool is_first = !i || (uint64_t)i * parts / in->buckets != part;
		part = (uint32_t)((uint64_t)i * parts / in->buckets);
		trough[part] = is_first ? live : fmin(trough[part], live);
	}
}

/* Detects a queue whose reader does not keep up: the allocation rate is constant and no freed block
 * lived longer than a third of the window, but more and more blocks are live. */
static bool measure_backlog(const struct survey *survey, struct growth *ret)
{
	const struct suspect_input *in = survey->in;
	double trough[SEGMENTS], rises = 0;
	uint32_t n = survey->n, third = n / 3, last = SEGMENTS - 1;
	if (n < 2 * SEGMENTS || survey->longest > n / 3.0)
		return false;
	double early = sum_of(in->allocated_blocks, 0, third);
	double late = sum_of(in->allocated_blocks, n - third, n);
	find_troughs(in, SEGMENTS, trough);
	double rise = trough[last] - trough[0];
	if (late > BACKLOG_LOAD * early || early > BACKLOG_LOAD * late || rise < BACKLOG_BLOCKS ||
		rise < 0.5 * trough[last])
		return false;
	if (in->older_freed_blocks && sum_of(in->older_freed_blocks, 0, n) > 0.3 * rise)
		return false;
	for (uint32_t i = 0; i < SEGMENTS; i++) {
		rises += i && trough[i] > trough[i - 1];
		if (fabs(trough[i] - trough[0] - rise * i / last) > BACKLOG_STRAY * rise)
			return false;
	}
	if (rises < 0.8 * last)
		return false;
	double bytes = (double)in->live_bytes[n - 1], span = survey->window_s * last / SEGMENTS;
	ret->by_backlog = true;
	ret->blocks = rise;
	ret->span_s = survey->window_s;
	ret->slope_bytes_per_s = bytes * rise / trough[last] / span;
	ret->confidence = 0.7 * rise / (rise + 20);
	return true;
}

void growth_measure(const struct suspect_input *input, struct growth *ret)
{
	struct survey survey = {.in = input,
		.n = input->buckets,
		.bucket_s = (double)input->bucket_ns / 1e9,
		.freed = (double)input->freed_total_blocks};
	survey.window_s = survey.bucket_s * survey.n;
	survey.settle = (double)input->settle_ns / (double)input->bucket_ns;
	survey.longest = (double)input->lifetime_max_ns / (double)input->bucket_ns;
	if (survey.freed > 0)
		survey.mean =
			(double)input->lifetime_ns_total / survey.freed / (double)input->bucket_ns;
	*ret = (struct growth){.finding = GROWTH_SHORT};
	if (survey.window_s < WINDOW_MIN_S || survey.n < BUCKETS_MIN)
		return;
	if (measure_resizing(&survey, ret)) {
		ret->finding = GROWTH_FOUND;
		return;
	}
	*ret = (struct growth){.finding = GROWTH_MAY_END};
	if (find_old(&survey))
		ret->finding = judge(&survey);
	if ((ret->finding == GROWTH_NONE || ret->finding == GROWTH_MAY_END) &&
		measure_backlog(&survey, ret)) {
		ret->finding = GROWTH_FOUND;
		return;
	}
	if (survey.old <= 0)
		return;
	ret->blocks = survey.old;
	ret->span_s = (survey.end - survey.first) * survey.bucket_s;
	ret->last_age_s = (survey.n - survey.last) * survey.bucket_s;
	if (ret->finding != GROWTH_FOUND)
		return;
	ret->slope_bytes_per_s = slope_of(&survey);
	ret->confidence = confidence_of(&survey);
}
