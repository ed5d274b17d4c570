/* SPDX-License-Identifier: Apache-2.0
 *
 * Has memory grown by a number of bytes, or by so many within a time? The figures come from the
 * caller.
 */
#pragma once

#include "format/base.h"

#define GROWTH_SAMPLES 65u

struct growth_limit {
	uint64_t bytes;	  /* 0: no limit */
	uint64_t span_ns; /* within this time; 0: since the first figure */
};

struct growth {
	struct growth_limit limit;
	struct growth_sample {
		/* the lowest figure from `ns` to the next sample; without a span: the first
		 * figure, which is the only sample */
		uint64_t ns, bytes;
	} sample[GROWTH_SAMPLES]; /* the last ones, evenly within the span */
	size_t count, next;	  /* `next`: the oldest, where all are in use */
};

/* Parses "2G" or "100M/min", "1G/h", "50M/10s" ("MiB" as quantity_size, the time as
 * quantity_duration or s, min, h). Returns NULL, or a static message that names the fault. */
const char *growth_parse(const char *text, struct growth_limit *ret);

/* Takes the next figure; true when the growth reaches the limit. A limit with a span compares with
 * the lowest figure within that span. `now_ns` never decreases. */
bool growth_reached(struct growth *growth, uint64_t now_ns, uint64_t bytes);
