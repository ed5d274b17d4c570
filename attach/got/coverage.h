/* SPDX-License-Identifier: Apache-2.0
 *
 * Which calls of linked-in allocators go through a slot, and which bypass all slots: direct calls,
 * and calls of an address that the code loads. Reads code from files. From the target's memory
 * reads only dynamic symbol tables, and writes nothing.
 */
#pragma once

#include "attach/got/slots.h"
#include "attach/memory/proc_map.h"

struct coverage_function {
	const struct native *native; /* of one of the modules */
	const struct module *module;
	size_t slots;  /* that lead to the function */
	bool at_entry; /* has an entry hook, which sees every call */
	size_t places; /* in code outside of the allocator that call it or load its address; without
			  a hook, also words that lead to it and modules that call it by name */
};

struct coverage {
	struct coverage_function *function; /* those with any reference */
	size_t count;
	const struct module *operators; /* allocator whose operator new has no hook; NULL: none */
	const struct module *partial;	/* its file has more than heaptap reads; NULL: none */
	size_t places; /* sum over the functions, plus references to such operators, plus modules
			  read in part */
};

/* For the allocators of the executable, and of other modules those with a prefix (mi_, _rjem_) or
 * that the user has named. The result points into `modules`. Free with coverage_deinit. */
HT_MUST_CHECK
struct ht_err *coverage_read(const struct proc *proc, const struct proc_maps *maps,
	const struct modules *modules, const struct slots *slots, struct coverage *ret);
/* Among modules with ids from `first_id` on: one whose file has more than heaptap reads, and how
 * many there are; NULL: none. */
const struct module *coverage_partial_since(const struct modules *modules,
	const struct slots *slots, uint64_t first_id, size_t *ret_count);
void coverage_deinit(struct coverage *coverage);

/* Names the functions with calls that heaptap does not see, such as "jemalloc (_rjem_malloc,
 * _rjem_sdallocx and 3 more)"; "": none. malloc'd; NULL: no memory. */
char *coverage_unseen(const struct coverage *coverage);
