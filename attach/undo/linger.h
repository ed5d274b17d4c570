/* SPDX-License-Identifier: Apache-2.0
 *
 * What the guardian does after a capture that had to leave its jump page: it waits until the
 * program has dropped the addresses for which the page stays, and unmaps the page then. It holds
 * no lock meanwhile and gives way to the next heaptap at once.
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

/* Would the target get the lingering process as its child, once this process has ended? It could
 * see that end, as the first process of a container or an ancestor of ours. */
bool linger_reaches(pid_t target);

/* Leaves the session, the directory and all descriptors of the caller, which keeps standard
 * input, output and error on /dev/null; writes a byte to `ready_fd` then. Returns when all pages
 * are gone, or their processes, when another heaptap comes, or after the time. */
void linger_run(const struct linger_plan *plan, int ready_fd);
