/* SPDX-License-Identifier: Apache-2.0
 *
 * Rights of a process that was forked for one task.
 */
#pragma once

#include <sys/types.h>

#include "format/base.h"

#define RIGHTS_NOBODY 65534u

/* From now on this process has the rights of user `uid` and group `gid` if it was root's, no
 * capability, and cannot get any again; what it writes into files fails. Root of a container that
 * may not become another user keeps its number, without capabilities. False: it is still another
 * user's for another reason. Clears PR_SET_PDEATHSIG. */
HT_MUST_CHECK
bool rights_drop(uid_t uid, gid_t gid);
