/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/cli/series.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "format/quantity.h"

#define COUNT_MAX      1000000u
#define MAX_SIZE_LEAST (16u << 10)

static struct ht_err *refuse(const char *word, const char *problem)
{
	return ht_err_new(HT_ERR_USAGE, "%s: %s", word, problem);
}

static struct ht_err *apply_count(const char *value, uint64_t *ret)
{
	char *end;
	errno = 0;
	const unsigned long number = strtoul(value, &end, 10);
	if (errno || *end || value[0] < '0' || value[0] > '9' || !number || number > COUNT_MAX)
		return refuse(value, "not a number from 1 to 1000000");
	*ret = number;
	return NULL;
}

static struct ht_err *apply_full(struct series_options *series, const char *value)
{
	series->rotate = strcmp(value, "rotate") == 0;
	return series->rotate || strcmp(value, "stop") == 0
		       ? NULL
		       : refuse(value, "it is neither stop nor rotate");
}

static struct ht_err *complete(const char *value, const char *problem)
{
	return problem ? refuse(value, problem) : NULL;
}

/* The least size: a trace without events has some KiB. */
static struct ht_err *apply_max_size(const char *value, uint64_t *ret)
{
	const char *problem = quantity_size(value, ret);
	if (!problem && *ret < MAX_SIZE_LEAST)
		problem = "less than 16K";
	return complete(value, problem);
}

static struct ht_err *add_push(struct series_options *series, const char *value)
{
	size_t i = 0;
	while (i < SERIES_PUSH_MAX && series->push[i])
		i++;
	if (i == SERIES_PUSH_MAX)
		return refuse("--push", "takes 4 addresses at most");
	if (*value != '@' && strncmp(value, "pyroscope+http", 14) != 0 &&
		strncmp(value, "clickhouse+http", 15) != 0)
		return refuse("--push",
			"takes pyroscope+http://HOST:4040, clickhouse+http://HOST:8123 or @FILE");
	series->push[i] = value;
	return NULL;
}

struct ht_err *series_apply(
	struct series_options *series, enum option_id id, const char *value, bool *ret_is_one)
{
	*ret_is_one = true;
	switch ((int)id) {
	case OPTION_DELAY:
		return complete(value, quantity_duration(value, &series->delay_ns));
	case OPTION_EVERY:
		return complete(value, quantity_duration(value, &series->every_ns));
	case OPTION_COUNT:
		return apply_count(value, &series->count);
	case OPTION_KEEP:
		return apply_count(value, &series->keep);
	case OPTION_TRIGGER_RSS:
		return complete(value, quantity_size(value, &series->trigger_rss_bytes));
	case OPTION_TRIGGER_GROWTH:
		return complete(value, growth_parse(value, &series->trigger_growth));
	case OPTION_UNTIL_RSS:
		return complete(value, quantity_size(value, &series->until_rss_bytes));
	case OPTION_UNTIL_GROWTH:
		return complete(value, growth_parse(value, &series->until_growth));
	case OPTION_MAX_SIZE:
		return apply_max_size(value, &series->max_bytes);
	case OPTION_ON_FULL:
		return apply_full(series, value);
	case OPTION_PUSH:
		return add_push(series, value);
	case OPTION_EXEC:
		series->exec = value;
		return value[strspn(value, " ")] ? NULL
						 : refuse("--exec", "the command is missing");
	default:
		*ret_is_one = false;
		return NULL;
	}
}

bool series_has_trigger(const struct series_options *series)
{
	return series->trigger_rss_bytes || series->trigger_growth.bytes;
}

bool series_has_several(const struct series_options *series)
{
	return series->every_ns || series->count > 1 || series->rotate;
}

bool series_waits(const struct series_options *series)
{
	return series->delay_ns || series_has_trigger(series);
}

/* Does anything end a window, other than the user? */
static bool has_end(const struct series_options *series, uint64_t duration_ns)
{
	return duration_ns || series->until_rss_bytes || series->until_growth.bytes ||
	       series->max_bytes;
}

struct ht_err *series_check(
	const struct series_options *series, uint64_t duration_ns, bool to_stdout)
{
	if (series->rotate && !series->max_bytes)
		return refuse("--on-full=rotate", "needs --max-size");
	if (series->rotate && (series->every_ns || series->count))
		return refuse("--on-full=rotate",
			"fills windows one after another; it excludes --every and --count");
	if (series->every_ns && !has_end(series, duration_ns))
		return refuse("--every", "each window needs an end; add -d TIME");
	if (series->every_ns && duration_ns >= series->every_ns)
		return refuse("--every", "is too short: a window (-d, --settle) must end before "
					 "the next one begins");
	if (series->count > 1 && !series->every_ns && !series_has_trigger(series))
		return refuse("--count", "needs --every or a trigger");
	if (series->count > 1 && !has_end(series, duration_ns))
		return refuse("--count", "each window needs an end; add -d TIME");
	if (series->keep && !series_has_several(series))
		return refuse(
			"--keep", "needs several traces: --every, --count or --on-full=rotate");
	if (series_has_several(series) && to_stdout)
		return refuse("-o -", "several traces need files; name them with -o FILE");
	if (series->push[0] && to_stdout)
		return refuse("--push", "needs a trace in a file; name one with -o");
	if (series->exec && to_stdout)
		return refuse("--exec", "needs a trace in a file; name one with -o");
	return NULL;
}
