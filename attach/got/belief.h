/* SPDX-License-Identifier: Apache-2.0
 *
 * Names that tell nothing alone: operators new and delete of C++, which mostly call malloc, and
 * those with an allocator's prefix, which a program may have for its own. A slot of such a name is
 * one only where its function is that of an allocator which is plainly there.
 */
#pragma once

#include "attach/got/cxxops.h"
#include "attach/got/slot.h"

struct belief {
	const struct modules *modules;
	struct cxxops *cxxops; /* of each module; NULL: none has operators of its own */
	bool families;	       /* a module has an allocator with a prefix */
};

/* Belongs to the modules that `scope` is of. */
HT_MUST_CHECK
struct ht_err *belief_init(struct scope *scope, struct belief *ret);
void belief_deinit(struct belief *belief);
/* May any slot of that name be believed? */
bool belief_may(const struct belief *belief, uint32_t name);
/*
 * Is it one? Of a name that tells, always. Where the function is not known yet it may be: the
 * dynamic linker may be about to write it, and what leads to no module may be a thunk of which
 * nobody has told us.
 */
bool belief_holds(const struct belief *belief, const struct slot *slot);
/* What is called in the place of the slot's function, one of ABI_NEWS; 0: none. */
raddr_t belief_plain(const struct belief *belief, const struct slot *slot);
