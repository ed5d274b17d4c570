/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/query/metric.h"

#include <math.h>

static const struct metric_info info[METRIC_COUNT] = {
#define X(id, name, unit, is_signed, value, title) {name, title, unit, is_signed},
	METRICS(X)
#undef X
};

const struct metric_info *metric_info(enum metric metric)
{
	return &info[metric];
}

int64_t metric_value(const struct sums *s, enum metric metric)
{
	switch (metric) {
#define X(id, name, unit, is_signed, value, title)                                                 \
	case METRIC_##id:                                                                          \
		return value;
		METRICS(X)
#undef X
	case METRIC_COUNT:
		break;
	}
	return 0;
}

#define Z_95 1.959964 /* quantile of the normal distribution for 95 % */

int64_t figure_bound(struct figure figure)
{
	const double value = (double)figure.value, variance = figure.variance;
	if (!(variance > 0))
		return 0;
	/* Sums of few samples are skewed: adding the variance of two more samples of mean size
	 * makes the interval cover 95 % from three samples on. */
	const double square = value * value;
	const double wider = square > variance ? 1 + 2 * variance / square : 3;
	const double bound = Z_95 * sqrt(variance * wider);
	return bound < 9e18 ? (int64_t)llround(bound) : INT64_MAX;
}

void figure_add(struct figure *sum, struct figure more)
{
	sum->value += more.value;
	sum->variance += more.variance;
}

struct figure metric_figure(const struct sums *sums, enum metric metric)
{
	return (struct figure){metric_value(sums, metric), (double)sums->variance[metric]};
}

int64_t metric_bound(const struct sums *sums, enum metric metric)
{
	return figure_bound(metric_figure(sums, metric));
}

int64_t sums_outstanding_blocks_bound(const struct sums *sums)
{
	return figure_bound((struct figure){(int64_t)sums_outstanding_blocks(sums),
		(double)sums->variance[SUMS_OUTSTANDING_BLOCKS]});
}

int64_t sums_surviving_blocks_bound(const struct sums *sums)
{
	return figure_bound((struct figure){(int64_t)sums_surviving_blocks(sums),
		(double)sums->variance[SUMS_SURVIVING_BLOCKS]});
}

void sums_estimate(struct sums *sums, double of_byte, double of_block)
{
	for (unsigned i = 0; i < METRIC_COUNT; i++) {
		const enum metric_unit unit = info[i].unit;
		const int64_t value = metric_value(sums, (enum metric)i);
		/* Growth is bytes allocated and still live, minus older bytes freed: both parts
		 * vary. */
		const double moved = i == METRIC_GROWTH ? 2 * (double)sums_outstanding_bytes(sums) -
								  (double)value
							: (double)value;
		sums->variance[i] =
			(float)(fabs(moved) * (unit == METRIC_BYTES ? of_byte : of_block));
	}
	sums->variance[METRIC_LIFETIME] = sums->variance[METRIC_TEMPORARY] = 0;
	sums->variance[SUMS_OUTSTANDING_BLOCKS] =
		(float)((double)sums_outstanding_blocks(sums) * of_block);
	sums->variance[SUMS_SURVIVING_BLOCKS] =
		(float)((double)sums_surviving_blocks(sums) * of_block);
}

bool metric_is_exact(enum metric metric, bool is_whole_window)
{
	return metric != METRIC_PEAK || is_whole_window;
}

int metric_compare(enum metric metric, const struct sums *x, const struct sums *y)
{
	const int64_t vx = metric_value(x, metric), vy = metric_value(y, metric);
	if (vx != vy)
		return vx > vy ? -1 : 1;
	return (x->allocated_bytes < y->allocated_bytes) -
	       (x->allocated_bytes > y->allocated_bytes);
}

void sums_add(struct sums *sum, const struct sums *more)
{
	sum->samples += more->samples;
	sum->allocations += more->allocations;
	sum->allocated_bytes += more->allocated_bytes;
	sum->frees += more->frees;
	sum->freed_bytes += more->freed_bytes;
	sum->temporary += more->temporary;
	sum->lifetime_us += more->lifetime_us;
	sum->growth_blocks += more->growth_blocks;
	sum->growth_bytes += more->growth_bytes;
	sum->live_blocks += more->live_blocks;
	sum->live_bytes += more->live_bytes;
	sum->later_frees += more->later_frees;
	sum->later_freed_bytes += more->later_freed_bytes;
	for (unsigned i = 0; i < SUMS_VARIANCES; i++)
		sum->variance[i] += more->variance[i];
	sum->peak_bytes += more->peak_bytes;
}

bool sums_are_zero(const struct sums *sums)
{
	return !sums->allocations && !sums->frees && !sums->growth_blocks && !sums->live_blocks &&
	       !sums->growth_bytes && !sums->live_bytes && !sums->peak_bytes;
}
