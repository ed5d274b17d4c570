/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/views/limits.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/quantity.h"

#define INCREASE_LEAST_BYTES (64.0 * 1024)
#define CONFIDENCE_LEAST     0.5
#define STEPS_MAX	     (1u << 20) /* limit of steps of a window that is mostly empty */

/* --- words -------------------------------------------------------------------------------------
 */

const char *limits_parse_rate(const char *text, double *ret_bytes_per_s)
{
	static const struct {
		const char *name;
		double seconds;
	} unit[] = {{"/s", 1}, {"/min", 60}, {"/m", 60}, {"/h", 3600}, {"/d", 86400}};
	const char *slash = strchr(text, '/');
	char size[32];
	uint64_t bytes = 0;
	if (!slash || (size_t)(slash - text) >= sizeof(size))
		return "a rate is a size, / and s, min, h or d: 1M/min";
	snprintf(size, sizeof(size), "%.*s", (int)(slash - text), text);
	const char *wrong = strcmp(size, "0") ? quantity_size(size, &bytes) : NULL;
	if (wrong)
		return wrong;
	for (size_t i = 0; i < HT_ARRAY_SIZE(unit); i++)
		if (strcmp(slash, unit[i].name) == 0) {
			*ret_bytes_per_s = (double)bytes / unit[i].seconds;
			return NULL;
		}
	return "a rate ends with /s, /min, /h or /d";
}

const char *limits_parse_percent(const char *text, double *ret)
{
	char *end;
	/* strtod would also take hexadecimal numbers and a sign. */
	if (*text < '0' || *text > '9' || text[strspn(text, "0123456789.")] != '%')
		return "a share is a number and %: 5%";
	const double value = strtod(text, &end);
	if (strcmp(end, "%") != 0 || !(value <= 1e6))
		return "a share is a number and %: 5%";
	*ret = value / 100;
	return NULL;
}

/* --- measures ----------------------------------------------------------------------------------
 */

/* Lowest and highest live bytes in the last tenth of a window, or of a window's first part. */
struct level {
	uint64_t lowest, highest;
};

static double bound_of(const struct view *view)
{
	return (double)metric_bound(&view->total, METRIC_OUTSTANDING);
}

/* The level of the first `end` buckets. After its last entry the series stays level: it ends with
 * the last event. */
static struct level level_at(const struct window_series *series, uint64_t end)
{
	int64_t lowest = INT64_MAX, highest = INT64_MIN;
	if (!series->count)
		return (struct level){0};
	end = end ? end : 1;
	for (uint64_t i = end - 1 - end / 10; i < end; i++) {
		const uint64_t at = i < series->count ? i : series->count - 1;
		const int64_t bytes = series->live_bytes[at];
		lowest = lowest > bytes ? bytes : lowest;
		highest = highest < bytes ? bytes : highest;
	}
	return (struct level){
		lowest > 0 ? (uint64_t)lowest : 0, highest > 0 ? (uint64_t)highest : 0};
}

static uint64_t length_ns(const struct view *view)
{
	return view->to_ns - view->from_ns;
}

/* Levels at the end of the window, and `part_ns` after its start. */
static struct ht_err *find_levels(
	const struct view *view, uint64_t part_ns, struct level *ret, struct level *ret_part)
{
	const struct cube *cube = &view->analysis->cube;
	struct window_series *series = malloc(sizeof(*series));
	const uint64_t step_ns = cube->timeline.step_ns, whole_ns = length_ns(view);
	size_t sites = 0;
	if (!series)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for the series of a view");
	for (size_t i = 0; i < view->row_count; i++)
		sites += view->row[i].count;
	window_series(cube, view->window, view->row_site, sites, series);
	const uint64_t whole = whole_ns / step_ns, part = part_ns / step_ns;
	*ret = level_at(series, whole < STEPS_MAX ? whole : STEPS_MAX);
	*ret_part = part < whole ? level_at(series, part) : *ret;
	free(series);
	return NULL;
}

/* Adds a violation if the value exceeds the limit by more than its bound. */
static struct ht_err *judge(struct limits_result *result, const struct limits_violation *violation)
{
	if (violation->value - violation->bound <= violation->limit)
		return NULL;
	struct limits_violation *more =
		realloc(result->violation, (result->count + 1) * sizeof(*more));
	if (!more)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for the violations");
	result->violation = more;
	more[result->count++] = *violation;
	return NULL;
}

/* The bound of a site's outstanding bytes as a share of them: that of its growth is the same. */
static double uncertain_share(const struct sums *sums)
{
	const int64_t value = metric_value(sums, METRIC_OUTSTANDING);
	return value > 0 ? (double)metric_bound(sums, METRIC_OUTSTANDING) / (double)value : 0;
}

static void note_unclear(const struct suspects *suspects, struct limits_result *ret)
{
	uint64_t all = 0, unclear = 0;
	const char *text = "";
	for (size_t i = 0; i < suspects->count; i++) {
		const struct suspects_entry *entry = &suspects->entry[i];
		all += entry->held_bytes;
		if (entry->suspect.class != SUSPECT_UNCLEAR)
			continue;
		unclear += entry->held_bytes;
		text = *text ? text : entry->suspect.text;
	}
	if (!suspects->growing && unclear > all / 2)
		snprintf(ret->unclear, sizeof(ret->unclear), "%s", text);
}

static struct ht_err *check_growth(
	const struct limits *limits, const struct view *view, struct limits_result *ret)
{
	struct suspects suspects;
	HT_TRY(suspects_find(view, &suspects));
	struct ht_err *err = NULL;
	note_unclear(&suspects, ret);
	for (size_t i = 0; i < suspects.count && !err; i++) {
		const struct suspect *suspect = &suspects.entry[i].suspect;
		if (suspect->class != SUSPECT_GROWING || suspect->confidence < CONFIDENCE_LEAST)
			continue;
		const double slope = suspect->slope_bytes_per_s,
			     bound = slope * uncertain_share(&suspects.entry[i].sums);
		ret->growth_bytes_per_s += slope;
		ret->growth_bound_bytes_per_s = hypot(ret->growth_bound_bytes_per_s, bound);
		if (limits->has_growth)
			err = judge(ret,
				&(struct limits_violation){LIMITS_GROWTH, suspects.entry[i].row,
					slope, limits->growth_bytes_per_s, bound});
	}
	suspects_deinit(&suspects);
	/* Many sites may together exceed a limit that each of them keeps. */
	if (!err && limits->has_growth && !ret->count)
		err = judge(ret, &(struct limits_violation){LIMITS_GROWTH, UINT32_MAX,
					 ret->growth_bytes_per_s, limits->growth_bytes_per_s,
					 ret->growth_bound_bytes_per_s});
	return err;
}

/* The relative increase from `before` to `after * scale`; 0 if it is below INCREASE_LEAST_BYTES.
 * Callers pass the highest total before and the lowest after, so that noise is no increase.
 * `bound`: of the difference. */
static double increase(uint64_t before, uint64_t after, double scale, double bound)
{
	const double more = (double)after * scale - (double)before - bound;
	if (more < INCREASE_LEAST_BYTES)
		return 0;
	return before ? more / (double)before : LIMITS_FROM_NOTHING;
}

static struct ht_err *check_increase(const struct limits *limits, const struct view *view,
	const struct view *baseline, struct limits_result *ret)
{
	const uint64_t old_ns = length_ns(baseline), new_ns = length_ns(view);
	const uint64_t part_ns = old_ns < new_ns ? old_ns : new_ns;
	struct level before, after, before_part, after_part;
	HT_TRY(find_levels(baseline, part_ns, &before, &before_part));
	HT_TRY(find_levels(view, part_ns, &after, &after_part));
	/* As compare_change_of: the increase counts if both amount and rate show it, or if the
	 * first parts of equal length do. */
	const double bound = hypot(bound_of(baseline), bound_of(view));
	const double amount = increase(before.highest, after.lowest, 1, bound);
	const double rate = increase(
		before.highest, after.lowest, new_ns ? (double)old_ns / (double)new_ns : 1, bound);
	const double even = increase(before_part.highest, after_part.lowest, 1, bound);
	ret->increase = amount < rate ? amount : rate;
	ret->increase = ret->increase < even ? even : ret->increase;
	return judge(ret, &(struct limits_violation){
				  LIMITS_INCREASE, UINT32_MAX, ret->increase, limits->increase, 0});
}

struct ht_err *limits_check(const struct limits *limits, const struct view *view,
	const struct view *baseline, struct limits_result *ret)
{
	*ret = (struct limits_result){0};
	struct level level, part;
	struct ht_err *err = find_levels(view, UINT64_MAX, &level, &part);
	if (!err) {
		ret->outstanding_bytes = level.lowest;
		ret->outstanding_bound_bytes = bound_of(view);
	}
	HT_THEN(err, check_growth(limits, view, ret));
	if (!err && limits->has_outstanding)
		err = judge(ret,
			&(struct limits_violation){LIMITS_OUTSTANDING, UINT32_MAX,
				(double)ret->outstanding_bytes, (double)limits->outstanding_bytes,
				ret->outstanding_bound_bytes});
	if (!err && limits->has_increase && baseline)
		err = check_increase(limits, view, baseline, ret);
	if (err)
		limits_result_deinit(ret);
	return err;
}

void limits_result_deinit(struct limits_result *result)
{
	free(result->violation);
	*result = (struct limits_result){0};
}
