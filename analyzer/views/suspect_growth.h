/* SPDX-License-Identifier: Apache-2.0
 *
 * What proves growth, and what speaks against it: the statistics behind suspect.h.
 */
#pragma once

#include "analyzer/views/suspect_input.h"

enum growth_finding {
	GROWTH_FOUND,
	GROWTH_NONE,	   /* no block outlived what blocks of this site usually live */
	GROWTH_STOPPED,	   /* survivors come from an early part of the window alone */
	GROWTH_SLOWS,	   /* fewer and fewer survive: it fills up */
	GROWTH_LESS_WORK,  /* fewer and fewer survive, as the program works less and less */
	GROWTH_FEW,	   /* too few events */
	GROWTH_LATE,	   /* began too shortly before the end */
	GROWTH_SHORT,	   /* the window is too short */
	GROWTH_MAY_END,	   /* blocks of this age were freed before */
	GROWTH_IN_CYCLE,   /* since everything was freed at once */
	GROWTH_IN_BALANCE, /* with frees of blocks older than the window */
};

struct growth {
	enum growth_finding finding;
	bool by_resizing; /* few blocks that become larger, not more */
	bool by_backlog;  /* blocks are freed, later and later */
	double slope_bytes_per_s, confidence;
	double blocks, span_s; /* survivors that count as evidence; the time in which they were
				  allocated */
	double last_age_s;     /* of the youngest one: since when there is no growth */
};

void growth_measure(const struct suspect_input *input, struct growth *ret);
