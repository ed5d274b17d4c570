/* SPDX-License-Identifier: Apache-2.0
 *
 * The pointer by which glibc's dynamic linker unlocks its lists: a word of its own data that holds
 * the C library's pthread_mutex_unlock. A call through it says that a library is loaded.
 */
#pragma once

#include "attach/got/scope.h"
#include "attach/memory/proc_map.h"

struct unlock {
	raddr_t addr; /* of the word; 0: there is none to be sure of */
	uint64_t value;
	raddr_t real; /* pthread_mutex_unlock */
	uint64_t module_id;
};

/* `thunk_lo`, `thunk_hi`: where the word leads in a capture. */
HT_MUST_CHECK
struct ht_err *unlock_find(
	struct scope *scope, raddr_t thunk_lo, raddr_t thunk_hi, struct unlock *ret);
/* The same where the thunks are not known: the word may lead to any memory of a heaptap's. `maps`
 * are those of the process. */
HT_MUST_CHECK
struct ht_err *unlock_find_left(
	struct scope *scope, const struct proc_maps *maps, struct unlock *ret);

/*
 * Locks of glibc's dynamic linker: the one of its lists, and the one that it unlocks when all that
 * dlopen has added is relocated; since 2.35 (`before_constructors`) no constructor has run then.
 * 0, 0: they are not to be told.
 */
struct unlock_locks {
	raddr_t lists, done;
	bool before_constructors;
};

HT_MUST_CHECK
struct ht_err *unlock_locks(
	const struct proc *proc, const struct modules *modules, struct unlock_locks *ret);
