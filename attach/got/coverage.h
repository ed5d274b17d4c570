/* SPDX-License-Identifier: Apache-2.0
 *
 * Which calls of the allocators that are linked in pass a slot, and which go past all of them:
 * straight to the function, or by its address that the code loads. Read from files; nothing of the
 * target's memory is touched.
 */
#pragma once

#include "attach/got/slots.h"
#include "attach/memory/proc_map.h"

struct coverage_function {
	const struct native *native; /* of one of the modules */
	const struct module *module;
	size_t slots;  /* that are tapped, or would be */
	bool at_entry; /* it is hooked at its entry, which sees all of them */
	size_t places; /* in code outside of the allocator that call it, or load its address */
};

struct coverage {
	struct coverage_function *function; /* those that anything refers to */
	size_t count;
	const struct module *operators; /* allocator whose operator new is not seen; NULL: none */
	const struct module *partial;	/* whose file has more than is looked at; NULL: none */
	size_t places; /* sum of those above, and of the modules' references to such operators,
			and of the modules that are looked at in part */
};

/* For the executable's allocators, and those of other modules that have names of their own (mi_,
 * _rjem_). The result points into `modules`. */
HT_MUST_CHECK
struct ht_err *coverage_read(const struct proc *proc, const struct proc_maps *maps,
	const struct modules *modules, const struct slots *slots, struct coverage *ret);
/* Of what was loaded since modules had ids below `first_id`: a module whose file has more than is
 * looked at; NULL: none. How many are there? */
const struct module *coverage_partial_since(const struct modules *modules,
	const struct slots *slots, uint64_t first_id, size_t *ret_count);
void coverage_deinit(struct coverage *coverage);

/* "jemalloc (_rjem_malloc, _rjem_sdallocx and 3 more)": whose calls are not seen; "" when all are.
 * malloc'd; NULL: no memory. */
char *coverage_unseen(const struct coverage *coverage);
