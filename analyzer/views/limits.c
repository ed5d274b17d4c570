/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/views/limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/quantity.h"

#define INCREASE_LEAST_BYTES (64.0 * 1024) /* per minute */
#define CONFIDENCE_LEAST     0.5

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
	if (*text < '0' || *text > '9')
		return "a share is a number and %: 5%";
	const double value = strtod(text, &end);
	if (strcmp(end, "%") != 0 || !(value <= 1e6))
		return "a share is a number and %: 5%";
	*ret = value / 100;
	return NULL;
}

/* --- measures ----------------------------------------------------------------------------------
 */

/* The lowest total of the last tenth of the window. */
static struct ht_err *lasting_bytes(const struct view *view, uint64_t *ret)
{
	struct window_series *series = malloc(sizeof(*series));
	size_t sites = 0;
	if (!series)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for the series of a view");
	for (size_t i = 0; i < view->row_count; i++)
		sites += view->row[i].count;
	window_series(&view->analysis->cube, view->window, view->row_site, sites, series);
	const uint32_t count = series->count;
	int64_t lowest = count ? series->live_bytes[count - 1] : 0;
	for (uint32_t i = count - count / 10; i < count; i++)
		if (lowest > series->live_bytes[i])
			lowest = series->live_bytes[i];
	*ret = lowest > 0 ? (uint64_t)lowest : 0;
	free(series);
	return NULL;
}

static double per_minute(const struct view *view, uint64_t bytes)
{
	const uint64_t length_ns = view->to_ns - view->from_ns;
	return length_ns ? (double)bytes * 60e9 / (double)length_ns : 0;
}

static struct ht_err *add(struct limits_result *result, enum limits_kind kind, uint32_t row,
	double value, double limit)
{
	struct limits_violation *more =
		realloc(result->violation, (result->count + 1) * sizeof(*more));
	if (!more)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for the violations");
	result->violation = more;
	more[result->count++] = (struct limits_violation){kind, row, value, limit};
	return NULL;
}

static struct ht_err *check_growth(
	const struct limits *limits, const struct view *view, struct limits_result *ret)
{
	struct suspects suspects;
	struct ht_err *err = suspects_find(view, &suspects);
	for (size_t i = 0; i < suspects.count && !err; i++) {
		const struct suspect *suspect = &suspects.entry[i].suspect;
		if (suspect->class != SUSPECT_GROWING || suspect->confidence < CONFIDENCE_LEAST)
			continue;
		ret->growth_bytes_per_s += suspect->slope_bytes_per_s;
		if (limits->has_growth && suspect->slope_bytes_per_s > limits->growth_bytes_per_s)
			err = add(ret, LIMITS_GROWTH, suspects.entry[i].row,
				suspect->slope_bytes_per_s, limits->growth_bytes_per_s);
	}
	suspects_deinit(&suspects);
	/* Many sites may grow slowly. */
	if (!err && limits->has_growth && !ret->count &&
		ret->growth_bytes_per_s > limits->growth_bytes_per_s)
		err = add(ret, LIMITS_GROWTH, UINT32_MAX, ret->growth_bytes_per_s,
			limits->growth_bytes_per_s);
	return err;
}

static struct ht_err *check_increase(const struct limits *limits, const struct view *view,
	const struct view *baseline, struct limits_result *ret)
{
	uint64_t old_bytes;
	struct ht_err *err = lasting_bytes(baseline, &old_bytes);
	if (err)
		return err;
	const double before = per_minute(baseline, old_bytes);
	const double after = per_minute(view, ret->outstanding_bytes);
	ret->increase = before > 0 ? (after - before) / before : 0;
	if (after - before < INCREASE_LEAST_BYTES || after <= before * (1 + limits->increase))
		return NULL;
	if (before <= 0)
		ret->increase = 1e9;
	return add(ret, LIMITS_INCREASE, UINT32_MAX, ret->increase, limits->increase);
}

struct ht_err *limits_check(const struct limits *limits, const struct view *view,
	const struct view *baseline, struct limits_result *ret)
{
	*ret = (struct limits_result){0};
	struct ht_err *err = lasting_bytes(view, &ret->outstanding_bytes);
	if (!err)
		err = check_growth(limits, view, ret);
	if (!err && limits->has_outstanding && ret->outstanding_bytes > limits->outstanding_bytes)
		err = add(ret, LIMITS_OUTSTANDING, UINT32_MAX, (double)ret->outstanding_bytes,
			(double)limits->outstanding_bytes);
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
