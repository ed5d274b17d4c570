/* SPDX-License-Identifier: Apache-2.0
 *
 * Which registers do the callers of a function expect to be changed? A compiler that has seen both
 * keeps values where the function leaves them alone (gcc's -fipa-ra), and calls it with a stack
 * that is aligned no more than it needs; a hook changes all that a call may change. No
 * compiler sees the function behind a call through a register or a word, such as the PLT's. A
 * function that makes such a call is therefore expected to change all registers, and has its stack
 * aligned. The function that a TLS descriptor names keeps them, and does not count.
 *
 * Pure: bytes in, yes or no out.
 */
#pragma once

#include "attach/plan/codewalk.h"

/* True: its callers expect all of them to be changed. False: they may not, or it is unknown. */
bool clobbers_all(codewalk_read *read, void *context, raddr_t entry);
