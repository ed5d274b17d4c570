/* SPDX-License-Identifier: Apache-2.0
 *
 * The pointer through which glibc's dynamic linker unlocks its lists: a word of its data that holds
 * pthread_mutex_unlock of the C library. A call through it means that a library is being loaded.
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

/* `thunk_lo`, `thunk_hi`: where the word leads during a capture. */
HT_MUST_CHECK
struct ht_err *unlock_find(
	struct scope *scope, raddr_t thunk_lo, raddr_t thunk_hi, struct unlock *ret);
/* As unlock_find if the range of thunks is unknown: the word may lead to any memory of a heaptap.
 * `maps` are those of the process. */
HT_MUST_CHECK
struct ht_err *unlock_find_left(
	struct scope *scope, const struct proc_maps *maps, struct unlock *ret);

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
