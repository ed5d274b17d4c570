/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/steer/limits.h"

void limits_begin(struct limits *limits, const struct limits_options *options)
{
	*limits = (struct limits){.options = *options, .growth = {.limit = options->growth}};
}

bool limits_reached(struct limits *limits, uint64_t now_ns, uint64_t rss_bytes,
	uint64_t trace_bytes, enum rec_end_reason *ret)
{
	const struct limits_options *options = &limits->options;
	const bool grew = rss_bytes && growth_reached(&limits->growth, now_ns, rss_bytes);
	if (options->is_over && options->is_over(options->context))
		*ret = REC_END_COMMAND;
	else if (options->rss_bytes && rss_bytes >= options->rss_bytes)
		*ret = REC_END_RSS;
	else if (grew)
		*ret = REC_END_GROWTH;
	else if (options->trace_bytes && trace_bytes >= options->trace_bytes)
		*ret = REC_END_SIZE;
	else
		return false;
	return true;
}
