/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers each distinct origin of blocks (stack, thread and allocation function), so that a live
 * block stores one number instead of three.
 */
#pragma once

#include "format/base.h"
#include "format/err.h"

#define ORIGINS_MAX (1u << 30)

struct origin {
	uint32_t stack;	 /* node id, 0: none */
	uint32_t thread; /* index */
	uint32_t next;	 /* number of another origin with this stack; 0: none */
	uint8_t hook;
};

/* Zero-initialised is empty and valid. */
struct origins {
	struct origin *origin; /* by number, from 1 */
	size_t count, capacity;
	struct origins_index {
		uint32_t *first; /* number of an origin with the stack; 0: none yet */
		size_t capacity;
	} of_node, of_plain; /* by stack; ids from NODES_MAX on are in of_plain */
};

void origins_deinit(struct origins *origins);

/* The number of an origin, assigned when the origin is first seen; never 0. */
HT_MUST_CHECK
struct ht_err *origins_number(
	struct origins *origins, uint32_t stack, uint32_t thread, uint8_t hook, uint32_t *ret);

static inline const struct origin *origins_get(const struct origins *origins, uint32_t number)
{
	return &origins->origin[number - 1];
}
