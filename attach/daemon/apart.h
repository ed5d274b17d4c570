/* SPDX-License-Identifier: Apache-2.0
 *
 * A process that was just forked from the daemon and goes on by itself, also when the daemon ends.
 */
#pragma once

#include "format/base.h"

/* Where the descriptors of apart_become are. */
enum { APART_FIRST_FD = 3, APART_SECOND_FD };

/* Names this process, blocks all signals, leaves the daemon's process group, and closes all
 * descriptors but these two (`second`: -1, none), which get the numbers above, and standard
 * output if `keep_stdout`; /dev/null is in place of the others. False: some may still be open. A
 * process that cannot be killed must hold open neither the target, the lock nor the guardian's
 * socket. */
HT_MUST_CHECK
bool apart_become(const char *name, int first, int second, bool keep_stdout);
