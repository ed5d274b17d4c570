/* SPDX-License-Identifier: Apache-2.0
 *
 * The statistics behind suspect.h: evidence for growth and against it.
 */
#pragma once

#include "analyzer/views/suspect_input.h"

enum growth_finding {
	GROWTH_FOUND,
	GROWTH_NONE, /* no surviving block is older than the blocks of this site usually become */
	GROWTH_STOPPED,	  /* survivors come from an early part of the window alone */
	GROWTH_SLOWS,	  /* fewer and fewer blocks survive, as in a cache that fills */
	GROWTH_LESS_WORK, /* fewer and fewer blocks survive because the program works less and less
			   */
	GROWTH_FEW,	  /* too few events */
	GROWTH_LATE,	  /* the growth began too shortly before the end */
	GROWTH_SHORT,	  /* the window is too short */
	GROWTH_MAY_END, /* blocks of this age were freed earlier in the window, so the survivors may
			   be freed too */
	GROWTH_IN_CYCLE,   /* all survivors are younger than a moment at which everything was freed;
			      the next such moment may come */
	GROWTH_IN_BALANCE, /* as many blocks older than the window are freed: a long queue */
};

struct growth {
	enum growth_finding finding;
	bool by_resizing; /* a few blocks become larger, instead of more blocks */
	bool by_backlog;  /* all blocks are freed, but later and later */
	double slope_bytes_per_s, confidence;
	/* Number of survivors that count as evidence, and the time in which they were allocated.
	 * by_resizing: number of steps, and the time from the first to the last. by_backlog: growth
	 * of the number of live blocks, and the window. */
	double blocks, span_s;
	double last_age_s; /* age of the youngest of these survivors: growth has paused since */
};

void growth_measure(const struct suspect_input *input, struct growth *ret);
