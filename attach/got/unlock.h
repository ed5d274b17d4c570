/* SPDX-License-Identifier: Apache-2.0
 *
 * The pointer through which glibc's dynamic linker unlocks its lists: a word of its data that holds
 * the address of the C library's pthread_mutex_unlock. A call through it means that a library is
 * being loaded.
 */
#pragma once

#include "attach/got/scope.h"
#include "attach/memory/proc_map.h"

struct unlock {
	raddr_t addr; /* of the word; 0: none is certain */
	uint64_t value;
	raddr_t real; /* pthread_mutex_unlock */
	uint64_t module_id;
};

/* The destination of the word during a capture. */
struct unlock_hooks {
	raddr_t lo, hi; /* the range of the thunks; equal: there is no capture */
	/* Mappings of the process, if the range of the thunks is unknown: the word may lead to any
	 * memory of a heaptap. NULL: the range is known. */
	const struct proc_maps *maps;
};

/* `ret->addr` is 0 unless exactly one word of the dynamic linker's data leads to the function or to
 * a hook. */
HT_MUST_CHECK
struct ht_err *unlock_find(
	struct scope *scope, const struct unlock_hooks *hooks, struct unlock *ret);

/* Locks of glibc's dynamic linker: that of its lists, and the one that it unlocks after it has
 * relocated everything that dlopen added. Since 2.35 (`before_constructors`) no constructor has run
 * by then. 0, 0: unknown. */
struct unlock_locks {
	raddr_t lists, done;
	bool before_constructors;
};

HT_MUST_CHECK
struct ht_err *unlock_locks(
	const struct proc *proc, const struct modules *modules, struct unlock_locks *ret);
