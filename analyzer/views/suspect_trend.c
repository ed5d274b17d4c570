/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/views/suspect_trend.h"

#include <math.h>

/* Mann and Kendall's statistic of `count` segments, with ties, in standard deviations: negative if
 * the segments fall. */
static double kendall_of(const double *segment, uint32_t count)
{
	double n = count, score = 0, ties = 0;
	for (uint32_t i = 0; i < count; i++) {
		double alike = 0;
		for (uint32_t k = 0; k < count; k++) {
			int sign = (segment[k] > segment[i]) - (segment[k] < segment[i]);
			score += k > i ? sign : 0;
			alike += !sign;
		}
		/* A group of `alike` equal segments contributes alike * (alike - 1) * (2 * alike +
		 * 5): each segment of the group adds its share. */
		ties += (alike - 1) * (2 * alike + 5);
	}
	double variance = (n * (n - 1) * (2 * n + 5) - ties) / 18;
	return variance > 0 ? score / sqrt(variance) : 0;
}

/* Laplace's statistic: how far the mean time of survivors lies from the middle of their span, in
 * standard deviations of `events` independent events. */
static double laplace_of(const double *segment, uint32_t count, double events)
{
	double sum = 0, moment = 0;
	for (uint32_t i = 0; i < count; i++) {
		sum += segment[i];
		moment += segment[i] * ((i + 0.5) / count - 0.5);
	}
	return sum > 0 ? moment / sum * sqrt(12 * events) : 0;
}

double trend_ratio(const double *segment, uint32_t count)
{
	uint32_t third = count / 3;
	double first = 0, last = 0;
	for (uint32_t i = 0; i < third; i++) {
		first += segment[i];
		last += segment[count - 1 - i];
	}
	return first > 0 ? last / first : 1;
}

bool trend_slows(const double *segment, uint32_t count, double events)
{
	double ratio = trend_ratio(segment, count), trend = kendall_of(segment, count);
	double lean = laplace_of(segment, count, events);
	return (ratio < 0.1 && lean < -3) || (ratio < 1 / 3.0 && trend < -2 && lean < -3.5) ||
	       (ratio < 2 / 3.0 && trend < -2.8 && lean < -4) ||
	       (ratio < 0.8 && trend < -4 && lean < -4.5);
}
