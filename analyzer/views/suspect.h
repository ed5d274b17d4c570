/* SPDX-License-Identifier: Apache-2.0
 *
 * Does a site grow? A class for the series of one allocation site, with a slope, a confidence and
 * one sentence (analyzer/views/DESIGN.md, Suspects).
 */
#pragma once

#include "analyzer/views/suspect_input.h"

#define SUSPECT_TEXT_BYTES 192u

enum suspect_class {
	SUSPECT_GROWING,
	SUSPECT_SURVIVOR, /* no proof of growth, but blocks were held until the settle time ended */
	SUSPECT_PLATEAU,  /* it grew, and stopped or slows down: a cache that filled */
	SUSPECT_SPIKE,	  /* one short excursion */
	SUSPECT_PERIODIC, /* it rises and falls again and again */
	SUSPECT_CHURN,	  /* as much is freed as is allocated */
	SUSPECT_UNCLEAR,  /* the text says why */
	SUSPECT_CLASS_COUNT
};

struct suspect {
	enum suspect_class class;
	/* Of blocks that stay; 0 unless the class is SUSPECT_GROWING. */
	double slope_bytes_per_s;
	double confidence;  /* in the class, 0..1 */
	uint64_t oldest_ns; /* age of the oldest surviving block at the end of the window, or of
				the settle time, to a bucket */
	char text[SUSPECT_TEXT_BYTES]; /* one plain sentence */
};

/* Total: any numbers give a class. */
void suspect_classify(const struct suspect_input *input, struct suspect *ret);
/* Makes an unclear finding that of a survivor, if blocks were held for `settle_ns` after the
 * window: `held` of those that were outstanding at its end. */
void suspect_survives(
	uint64_t held, uint64_t outstanding, uint64_t settle_ns, struct suspect *suspect);
/* "growing" ...; the names of JSON and of --class. */
const char *suspect_class_name(enum suspect_class class);
