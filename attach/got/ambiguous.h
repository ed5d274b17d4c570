/* SPDX-License-Identifier: Apache-2.0
 *
 * Ambiguous names: C++ operators new and delete, which usually call malloc, and names with an
 * allocator's prefix, which a program may use for its own functions. A slot of such a name counts
 * only if its function belongs to an allocator that is plainly present.
 */
#pragma once

#include "attach/got/cxxops.h"
#include "attach/got/slot.h"

struct ambiguous {
	const struct modules *modules;
	struct cxxops *cxxops; /* of each module; NULL: no module has operators of its own */
	bool families;	       /* some module has an allocator with a prefix */
};

/* For the modules of `scope`. Free with ambiguous_deinit. */
HT_MUST_CHECK
struct ht_err *ambiguous_init(struct scope *scope, struct ambiguous *ret);
void ambiguous_deinit(struct ambiguous *ambiguous);
/* Can a slot of that name count at all? */
bool ambiguous_may_count(const struct ambiguous *ambiguous, uint32_t name);
/* Does the slot count? Always if its name is unambiguous. Also if its function is unknown
 * (slot->real 0), unless it holds another address within a module: the dynamic linker may be about
 * to write the slot, and an address outside of all modules may be a thunk of another heaptap. */
bool ambiguous_counts(const struct ambiguous *ambiguous, const struct slot *slot);
/* For a slot of ABI_NEWS: the function that the hook calls instead; 0: none. */
raddr_t ambiguous_plain(const struct ambiguous *ambiguous, const struct slot *slot);
