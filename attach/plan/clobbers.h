/* SPDX-License-Identifier: Apache-2.0
 *
 * Which registers do the callers of a function expect to be changed? A compiler that has seen both
 * keeps values where the function leaves them alone (gcc's -fipa-ra), and calls it with a stack
 * that is aligned no more than it needs; a hook changes all that a call may change. Nobody can have
 * seen what is called through a register or a word, as through the PLT: who comes to such a call is
 * expected to change all of them, and finds its stack aligned. What a TLS descriptor names keeps
 * them, and does not count.
 *
 * Pure: bytes in, yes or no out.
 */
#pragma once

#include "attach/plan/codewalk.h"

/* True: its callers expect all of them to be changed. False: they may not, or it is unknown. */
bool clobbers_all(codewalk_read *read, void *context, raddr_t entry);
