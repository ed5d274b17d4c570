/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a site grows: classifies the series of one allocation site, with a slope, a confidence
 * and one sentence (analyzer/views/DESIGN.md, Suspects).
 */
#pragma once

#include "analyzer/views/suspect_input.h"

#define SUSPECT_TEXT_BYTES 192u

enum suspect_class {
	SUSPECT_GROWING,
	SUSPECT_SURVIVOR, /* no proof of growth, but blocks were held until the settle time ended */
	SUSPECT_PLATEAU,  /* its growth stopped or slows down, as of a cache that is full */
	SUSPECT_SPIKE,	  /* one short rise and fall */
	SUSPECT_PERIODIC, /* its live bytes rise and fall repeatedly */
	SUSPECT_CHURN,	  /* nearly all blocks are freed again */
	SUSPECT_UNCLEAR,  /* the text says why */
	SUSPECT_CLASS_COUNT
};

struct suspect {
	enum suspect_class class;
	/* Growth by blocks that are not freed; 0 unless the class is SUSPECT_GROWING. */
	double slope_bytes_per_s;
	double confidence;  /* that the class is right, 0..1 */
	uint64_t oldest_ns; /* age of the oldest surviving block at the end of the window, or of
				the settle time, to a bucket */
	char text[SUSPECT_TEXT_BYTES]; /* one plain sentence */
};

/* Any input gets a class, even if its numbers contradict each other. */
void suspect_classify(const struct suspect_input *input, struct suspect *ret);
/* Changes SUSPECT_UNCLEAR to SUSPECT_SURVIVOR if `held` is not 0: the number of the `outstanding`
 * blocks at the window's end that were still held `settle_ns` later. */
void suspect_survives(
	uint64_t held, uint64_t outstanding, uint64_t settle_ns, struct suspect *suspect);
/* "growing" ...: the names in JSON and for --class. */
const char *suspect_class_name(enum suspect_class class);
