/* SPDX-License-Identifier: Apache-2.0
 *
 * One table of a view: its blocks by function, line, module, thread, size or lifetime. The own sums
 * of rows count each block once, so they add up to the view's total.
 */
#pragma once

#include "analyzer/views/view.h"

enum breakdown_by {
	BREAKDOWN_FUNCTION,
	BREAKDOWN_LINE,
	BREAKDOWN_ADDRESS,
	BREAKDOWN_MODULE,
	BREAKDOWN_NAMESPACE,
	BREAKDOWN_THREAD,
	BREAKDOWN_SIZE,
	BREAKDOWN_LIFETIME
};

#define BREAKDOWN_NO_STACK	 UINT32_MAX	  /* as a key: allocations without a stack */
#define BREAKDOWN_OTHER		 (UINT32_MAX - 1) /* stacks that the cube folded (cube.h) */
#define BREAKDOWN_LIFETIME_NEVER 65u		  /* not freed by the end of the window */

struct breakdown_row {
	/* FUNCTION, LINE, ADDRESS, MODULE, NAMESPACE: a frame of the view, or BREAKDOWN_NO_STACK;
	 * THREAD: index of the thread; SIZE: size class (cube.h); all of these: or BREAKDOWN_OTHER.
	 * LIFETIME: a class of lives (breakdown_life_from), or BREAKDOWN_LIFETIME_NEVER. */
	uint32_t key;
	const char *name; /* of a module or namespace; otherwise NULL */
	struct sums own;
	struct sums inclusive; /* callees included; recursion counts once */
};

/* Zero-initialised is empty and valid. */
struct breakdown {
	enum breakdown_by by;
	bool has_inclusive; /* by function, line, address, module, namespace */
	bool is_estimate; /* LIFETIME of a part of the trace: lifetimes are means over few blocks */
	struct breakdown_row *row;
	size_t count;
	struct groups groups; /* owns the names of rows */
};

/* Builds the rows with figures. Rows by size and lifetime are sorted by key; others by `metric`,
 * largest first: by own sums, or with `by_inclusive` by inclusive sums if there are any. LIFETIME
 * fills only allocations, bytes, frees and freed bytes. */
HT_MUST_CHECK
struct ht_err *breakdown_find(const struct view *view, enum breakdown_by by, enum metric metric,
	bool by_inclusive, struct breakdown *ret);
void breakdown_deinit(struct breakdown *breakdown);
/* The shortest and the longest life, in ns, of a row with this key. */
uint64_t breakdown_life_from(uint32_t key);
uint64_t breakdown_life_to(uint32_t key);
