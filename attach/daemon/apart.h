/* SPDX-License-Identifier: Apache-2.0
 *
 * What a process that was just forked from the daemon gives up: all that is the daemon's, and
 * rights. Such a process goes on when the daemon ends.
 */
#pragma once

#include <sys/types.h>

#include "format/base.h"

/* Where the descriptors of apart_become are. */
enum { APART_FIRST_FD = 3, APART_SECOND_FD };

/* Names this process, blocks all signals, and leaves the daemon's process group. Keeps the
 * descriptors `first` and `second` (-1: none), which get the numbers above, and standard output if
 * `keep_stdout`; closes all others, with /dev/null in place of the standard ones. False: some may
 * still be open. A process that cannot be killed must hold open neither the target, the lock nor
 * the guardian's socket. */
HT_MUST_CHECK
bool apart_become(const char *name, int first, int second, bool keep_stdout);

#define APART_NOBODY 65534u

/* From now on this process has the rights of user `uid` and group `gid` if it was root's, no
 * capability, and cannot get any again; what it writes into files fails. Root of a container that
 * may not become another user keeps its number, without capabilities. False: it is still another
 * user's for another reason. Clears PR_SET_PDEATHSIG. */
HT_MUST_CHECK
bool apart_drop_rights(uid_t uid, gid_t gid);
