/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/steer/growth.h"

#include <stdio.h>
#include <string.h>

#include "format/quantity.h"

#define MINUTE_NS 60000000000ull

/* Parses the part behind the "/". */
static const char *parse_span(const char *text, uint64_t *ret_ns)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {
		{"s", MINUTE_NS / 60}, {"m", MINUTE_NS}, {"min", MINUTE_NS}, {"h", 60 * MINUTE_NS}};
	for (size_t i = 0; i < HT_ARRAY_SIZE(units); i++)
		if (strcmp(text, units[i].name) == 0) {
			*ret_ns = units[i].ns;
			return NULL;
		}
	return quantity_duration(text, ret_ns);
}

const char *growth_parse(const char *text, struct growth_limit *ret)
{
	char size[32];
	const char *slash = strchr(text, '/');
	const size_t length = slash ? (size_t)(slash - text) : strlen(text);
	*ret = (struct growth_limit){0};
	if (length >= sizeof(size))
		return "too long; write 2G, or 100M/min";
	snprintf(size, sizeof(size), "%.*s", (int)length, text);
	const char *problem = quantity_size(size, &ret->bytes);
	if (!problem && slash)
		problem = parse_span(slash + 1, &ret->span_ns);
	return problem;
}

/* One sample stands for the lowest figure of a part of the span. */
static void keep(struct growth *growth, uint64_t now_ns, uint64_t bytes)
{
	struct growth_sample *last =
		&growth->sample[(growth->next + GROWTH_SAMPLES - 1) % GROWTH_SAMPLES];
	const uint64_t step_ns = growth->limit.span_ns / (GROWTH_SAMPLES - 3);
	if (growth->count && now_ns - last->ns < step_ns) {
		last->bytes = bytes < last->bytes ? bytes : last->bytes;
		return;
	}
	growth->sample[growth->next] = (struct growth_sample){now_ns, bytes};
	growth->next = (growth->next + 1) % GROWTH_SAMPLES;
	growth->count += growth->count < GROWTH_SAMPLES;
}

static uint64_t lowest_within_span(const struct growth *growth, uint64_t now_ns)
{
	uint64_t lowest = UINT64_MAX;
	for (size_t i = 0; i < growth->count; i++)
		if (now_ns - growth->sample[i].ns <= growth->limit.span_ns &&
			growth->sample[i].bytes < lowest)
			lowest = growth->sample[i].bytes;
	return lowest;
}

bool growth_reached(struct growth *growth, uint64_t now_ns, uint64_t bytes)
{
	if (!growth->limit.bytes)
		return false;
	if (growth->limit.span_ns || !growth->count)
		keep(growth, now_ns, bytes);
	const uint64_t before_bytes = growth->limit.span_ns ? lowest_within_span(growth, now_ns)
							    : growth->sample[0].bytes;
	return bytes > before_bytes && bytes - before_bytes >= growth->limit.bytes;
}
