/* SPDX-License-Identifier: Apache-2.0
 *
 * Do the callers of a function expect it to change all registers that a call may change? A compiler
 * that sees caller and function together keeps values in registers that the function leaves alone
 * (gcc's -fipa-ra), and aligns the stack no more than the function needs; a hook changes all those
 * registers. No compiler sees the function behind a call through a register or a word, such as a
 * PLT's. So a function that makes such a call is expected to change all registers, and its stack is
 * aligned. A function that a TLS descriptor names keeps registers, and does not count.
 *
 * Pure: bytes in, yes or no out.
 */
#pragma once

#include "attach/plan/codewalk.h"

/* True: all callers expect all of these registers to change. False: they may not, or it is
 * unknown. */
bool clobbers_all(codewalk_read *read, void *context, raddr_t entry);
