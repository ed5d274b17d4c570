/* SPDX-License-Identifier: Apache-2.0
 *
 * The jump pages for which a guardian waits.
 */
#pragma once

#include "attach/proof/escape.h"

#define LINGER_PLACES_MAX 16u
#define LINGER_PAGES_MAX  9u /* the target's, and those of children */

struct linger_page {
	pid_t pid;
	uint32_t place_count; /* 0: where the addresses stand is not known */
	uint64_t start_ticks; /* of the process */
	raddr_t page;
	raddr_t place[LINGER_PLACES_MAX]; /* words that lead to the page */
};

struct linger_plan {
	uint64_t time_ns;
	uint32_t count;
	struct linger_page page[LINGER_PAGES_MAX];
};

/* Adds a page; one that finds no room stays without a guardian. `found`: NULL where no search has
 * told where the addresses stand. */
void linger_plan_add(struct linger_plan *plan, pid_t pid, uint64_t start_ticks, raddr_t page,
	const struct escape_found *found);
