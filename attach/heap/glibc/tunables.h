/* SPDX-License-Identifier: Apache-2.0
 *
 * glibc's parameters of malloc (struct malloc_par since 2.26), which also count the blocks with a
 * mapping of their own. They are a variable without an exported name; the relations between its
 * values identify it.
 */
#pragma once

#include "attach/heap/view/view.h"

struct tunables {
	uint64_t mapped_bytes; /* of blocks with a mapping of their own */
	/* of each thread's cache: number of sizes, and maximum number of blocks of each */
	uint64_t cache_bins, cache_count;
};

/* Finds them in `data`, a copy of the variables at `addr`; 0: none, or several candidates. */
raddr_t tunables_find(const struct view *view, const uint8_t *data, size_t bytes, raddr_t addr);
/* False unless the values at `addr` are still plausible. */
bool tunables_read(struct view *view, raddr_t addr, struct tunables *ret);
