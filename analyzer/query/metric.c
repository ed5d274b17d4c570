/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/query/metric.h"

#include <string.h>

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

bool metric_is_exact(enum metric metric, bool is_whole_window)
{
	return metric != METRIC_PEAK || is_whole_window;
}

bool metric_find(const char *name, enum metric *ret)
{
	for (unsigned i = 0; i < METRIC_COUNT; i++)
		if (strcmp(info[i].name, name) == 0) {
			*ret = (enum metric)i;
			return true;
		}
	return false;
}

const char *const *metric_names(void)
{
	static const char *const names[] = {
#define X(id, name, unit, is_signed, value, title) name,
		METRICS(X)
#undef X
			NULL,
	};
	return names;
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
	sum->peak_bytes += more->peak_bytes;
}

bool sums_are_zero(const struct sums *sums)
{
	return !sums->allocations && !sums->frees && !sums->growth_blocks && !sums->live_blocks &&
	       !sums->growth_bytes && !sums->live_bytes && !sums->peak_bytes;
}
