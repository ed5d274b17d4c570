/* SPDX-License-Identifier: Apache-2.0
 *
 * Who allocated: stacks by their first frame that does not only pass allocations on (symbols/
 * wrapper.h). What views list and order; the sums stay those of the stacks.
 */
#pragma once

#include "analyzer/views/alike.h"

/* Where the part of a chain begins that a view shows. */
struct site {
	uint32_t node;	   /* 0: no stack */
	uint32_t skip;	   /* frames of this node's place that are passed over */
	uint32_t wrappers; /* frames passed over in all */
};

/* What is known about a node as the leaf of a chain; zero: nothing yet. */
struct site_known {
	uint32_t node; /* of its site; SITE_NONE: there are only wrappers up to the root */
	uint32_t wrappers;
};

#define SITE_NONE UINT32_MAX

/* Valid while the analysis is and gets no more symbols. */
struct sites {
	struct analysis *analysis;
	bool shows_wrappers;
	struct alike alike;
	struct site_known *known; /* by node */
	size_t known_capacity;
	struct profile_stack *stack; /* one for each site, its metrics summed up */
	size_t stack_count;
	bool has_skipped; /* frames, in any stack */
};

/* With `shows_wrappers` every stack is a site of its own, but for those that say the same
 * (alike.h). */
HT_MUST_CHECK
struct ht_err *sites_init(struct sites *sites, struct analysis *analysis, bool shows_wrappers);
void sites_deinit(struct sites *sites);
/* The site of the stack with this leaf, and of the node of any site itself. A chain of nothing but
 * wrappers begins where it begins. */
HT_MUST_CHECK
struct ht_err *sites_find(struct sites *sites, uint32_t leaf, struct site *ret);
