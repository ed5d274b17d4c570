/* SPDX-License-Identifier: Apache-2.0
 *
 * Ambiguous names: C++ operators new and delete, which usually call malloc, and names with an
 * allocator's prefix, which a program may use for its own functions. A slot of such a name counts
 * only if its function belongs to an allocator that is plainly present.
 */
#pragma once

#include "attach/got/cxxops.h"
#include "attach/got/slot.h"

struct belief {
	const struct modules *modules;
	struct cxxops *cxxops; /* of each module; NULL: no module has operators of its own */
	bool families;	       /* some module has an allocator with a prefix */
};

/* For the modules of `scope`. Free with belief_deinit. */
HT_MUST_CHECK
struct ht_err *belief_init(struct scope *scope, struct belief *ret);
void belief_deinit(struct belief *belief);
/* Can a slot of that name count at all? */
bool belief_may(const struct belief *belief, uint32_t name);
/* Does the slot count? Always if its name is unambiguous. Also if its function is not known yet:
 * the dynamic linker may be about to write the slot, and an address outside of all modules may be a
 * thunk of another heaptap. */
bool belief_holds(const struct belief *belief, const struct slot *slot);
/* For a slot of ABI_NEWS: the function that the hook calls instead; 0: none. */
raddr_t belief_plain(const struct belief *belief, const struct slot *slot);
