/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds where calls and jumps that leave a function lead: a function that only calls a hooked
 * function needs no hook. Pure: bytes in, an answer out. `code` has the function's `bytes` bytes,
 * at `entry`.
 */
#pragma once

#include "format/base.h"

/*
 * Returns the one function to which all jumps out of this function lead. 0: there is none or
 * several, or this function makes a call or a system call, writes memory other than its thread's,
 * jumps to an unknown place, or cannot be decoded. `ret_same`: every call of this function reaches
 * the other one, with the first `arity` arguments unchanged, and this function writes no memory.
 */
raddr_t callees_sole(
	const uint8_t *code, raddr_t entry, size_t bytes, unsigned arity, bool *ret_same);

/* Does the function call, or jump to, an address for which `is_seen` is true? `is_word`: `addr` is
 * the address of a word that holds the destination. */
bool callees_any(const uint8_t *code, raddr_t entry, size_t bytes,
	bool (*is_seen)(void *context, raddr_t addr, bool is_word), void *context);
