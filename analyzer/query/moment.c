/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/query/moment.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "format/quantity.h"

#define NS_PER_S 1000000000ull
#define DAY_S	 86400

static bool parse_duration(const char *text, uint64_t *ret)
{
	*ret = 0;
	return strcmp(text, "0") == 0 || strcmp(text, "0s") == 0 || !quantity_duration(text, ret);
}

/* "14:03" or "14:03:10": on the day on which the trace starts, or on the next day if that time is
 * more than a second before the start. */
static bool parse_clock(const char *text, const struct model *model, bool utc, uint64_t *ret)
{
	unsigned hour, minute, second = 0;
	int read = 0;
	if (sscanf(text, "%2u:%2u%n", &hour, &minute, &read) != 2)
		return false;
	int more = 0;
	if (text[read] == ':' && sscanf(text + read, ":%2u%n", &second, &more) != 1)
		return false;
	if (text[read + more] || hour > 23 || minute > 59 || second > 60)
		return false;
	const time_t start_s = (time_t)(model->capture.start_unix_ns / NS_PER_S);
	struct tm day;
	if (!(utc ? gmtime_r(&start_s, &day) : localtime_r(&start_s, &day)))
		return false;
	day.tm_hour = (int)hour;
	day.tm_min = (int)minute;
	day.tm_sec = (int)second;
	day.tm_isdst = -1;
	time_t when_s = utc ? timegm(&day) : mktime(&day);
	if (when_s + 1 < start_s)
		when_s += DAY_S;
	const int64_t since_ns =
		(int64_t)when_s * (int64_t)NS_PER_S - (int64_t)model->capture.start_unix_ns;
	*ret = since_ns > 0 ? (uint64_t)since_ns : 0;
	return true;
}

static bool find_mark(const char *text, const struct model *model, uint64_t *ret)
{
	for (size_t i = 0; i < model->mark_count; i++)
		if (strcmp(model->mark[i].text, text) == 0) {
			*ret = model->mark[i].time_ns;
			return true;
		}
	return false;
}

struct ht_err *moment_parse(
	const char *option, const char *text, const struct model *model, bool utc, uint64_t *ret)
{
	uint64_t ns;
	if (find_mark(text, model, ret))
		return NULL;
	if (*text == '+' && parse_duration(text + 1, ret))
		return NULL;
	if (*text == '-' && parse_duration(text + 1, &ns)) {
		*ret = ns < model->duration_ns ? model->duration_ns - ns : 0;
		return NULL;
	}
	if (parse_duration(text, ret) || parse_clock(text, model, utc, ret))
		return NULL;
	return ht_err_new(HT_ERR_USAGE,
		"%s takes a time since the start (+10s), before the end (-5s), by the clock "
		"(14:03:10), or the text of a mark of the trace, not \"%s\"",
		option, text);
}
