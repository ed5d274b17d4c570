/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/process/growth.h"

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

static void keep(struct growth *growth, uint64_t now_ns, uint64_t bytes)
{
	growth->sample[growth->next] = (struct growth_sample){now_ns, bytes};
	growth->next = (growth->next + 1) % GROWTH_SAMPLES;
	growth->count += growth->count < GROWTH_SAMPLES;
}

/* The youngest figure that is at least a span old; NULL: none is. */
static const struct growth_sample *span_ago(const struct growth *growth, uint64_t now_ns)
{
	for (size_t i = 1; i <= growth->count; i++) {
		const size_t at = (growth->next + GROWTH_SAMPLES - i) % GROWTH_SAMPLES;
		if (now_ns - growth->sample[at].ns >= growth->limit.span_ns)
			return &growth->sample[at];
	}
	return NULL;
}

bool growth_reached(struct growth *growth, uint64_t now_ns, uint64_t bytes)
{
	const struct growth_sample *before;
	if (!growth->limit.bytes)
		return false;
	const size_t last = (growth->next + GROWTH_SAMPLES - 1) % GROWTH_SAMPLES;
	const uint64_t step_ns = growth->limit.span_ns / (GROWTH_SAMPLES - 3);
	if (!growth->count ||
		(growth->limit.span_ns && now_ns - growth->sample[last].ns >= step_ns))
		keep(growth, now_ns, bytes);
	before = growth->limit.span_ns ? span_ago(growth, now_ns) : &growth->sample[0];
	return before && bytes > before->bytes && bytes - before->bytes >= growth->limit.bytes;
}
