/* SPDX-License-Identifier: Apache-2.0
 *
 * glibc's parameters of malloc (struct malloc_par of 2.26 and later), in which blocks with a
 * mapping of their own are counted, too. A variable without an exported name, recognised by how its
 * values depend on each other.
 */
#pragma once

#include "attach/heap/view/view.h"

struct tunables {
	uint64_t mapped_bytes; /* of blocks with a mapping of their own */
	uint64_t cache_bins,
		cache_count; /* of each thread: so many sizes, so many blocks of each */
};

/* Where they lie among the variables `data`, copied from `addr` on; 0: nowhere, or more than one
 * place looks like it. */
raddr_t tunables_find(const struct view *view, const uint8_t *data, size_t bytes, raddr_t addr);
/* False unless what is at `addr` still looks like them. */
bool tunables_read(struct view *view, raddr_t addr, struct tunables *ret);
