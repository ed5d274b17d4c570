/* SPDX-License-Identifier: Apache-2.0
 *
 * The jump pages for which a guardian waits.
 */
#pragma once

#include "attach/proof/escape.h"

#define LINGER_PLACES_MAX 16u
#define LINGER_PAGES_MAX  9u /* the target's and its children's */

struct linger_page {
	pid_t pid;
	uint32_t place_count; /* 0: the places of the addresses are unknown */
	uint64_t start_ticks; /* of the process */
	raddr_t page;
	raddr_t place[LINGER_PLACES_MAX]; /* words that lead to the page */
};

struct linger_plan {
	/* After this time the guardian gives up. */
	uint64_t time_ns;
	uint32_t count;
	struct linger_page page[LINGER_PAGES_MAX];
};

/* Sets the places to those of `found`, as far as there is room. */
void linger_page_note(struct linger_page *page, const struct escape_found *found);
/* Adds a page. If the plan is full, the page stays without a guardian. `found`: the addresses that
 * lead to the page; NULL: no search was made. */
void linger_plan_add(struct linger_plan *plan, pid_t pid, uint64_t start_ticks, raddr_t page,
	const struct escape_found *found);
