/* SPDX-License-Identifier: Apache-2.0
 *
 * Which descriptors of a process are ours: told by what they are, never by their number alone.
 */
#pragma once

#include "attach/inject/journal.h"
#include "attach/inject/stub.h"
#include "attach/target/proc.h"

/*
 * Finds them. In the process that was attached to it is the agent's socket; `forked`: in a child
 * all that the first stub had open is looked for. HT_ERR_TARGET_GONE for a process that has ended.
 */
HT_MUST_CHECK
struct ht_err *ownfds_find(const struct proc *proc, const struct journal_header *header,
	bool forked, int ret[STUB_UNMAP_FDS], size_t *ret_count);
