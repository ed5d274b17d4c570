/* SPDX-License-Identifier: Apache-2.0
 *
 * Separates a process that was just forked from the daemon: the process gives up the daemon's
 * descriptors and process group, and its rights. It may outlive the daemon.
 */
#pragma once

#include <sys/types.h>

#include "format/base.h"

/* The numbers that apart_become gives to the two descriptors it keeps. */
enum { APART_FIRST_FD = 3, APART_SECOND_FD };

/* Names this process, blocks all signals, and leaves the daemon's process group. Keeps the
 * descriptors `first` and `second` (-1: none), which get the numbers above, and standard output if
 * `keep_stdout`. Closes all others; the other standard descriptors become /dev/null. False: other
 * descriptors may still be open; the process must not go on, since a process that cannot be killed
 * must hold open neither the target, the lock nor the guardian's socket. */
HT_MUST_CHECK
bool apart_become(const char *name, int first, int second, bool keep_stdout);

#define APART_NOBODY 65534u

/* Takes all capabilities from this process, for good, and makes its writes to files fail. If it is
 * root's, it becomes a process of user `uid` and group `gid`, which clears PR_SET_PDEATHSIG. If a
 * container forbids that (EPERM), the process keeps its user and group, without capabilities.
 * False: the user or group could not be set for another reason. */
HT_MUST_CHECK
bool apart_drop_rights(uid_t uid, gid_t gid);
