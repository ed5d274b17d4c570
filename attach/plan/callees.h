/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a function's calls and jumps lead to that leave it: one that only calls what is hooked is
 * seen there. Pure: bytes in, an answer out; `code` are the function's `bytes` bytes, at `entry`.
 */
#pragma once

#include "format/base.h"

/*
 * The one function that all of its jumps lead to which leave it, where it calls nothing, writes to
 * no memory but its thread's, and jumps nowhere unknown: what it has done is done there. 0: none.
 * `ret_same`: each call of it, with its `arity` arguments as they were given, and nothing is
 * written.
 */
raddr_t callees_sole(
	const uint8_t *code, raddr_t entry, size_t bytes, unsigned arity, bool *ret_same);

/* Does it call, or jump to, one that `is_seen`? `is_word`: it does so by the word that lies there.
 */
bool callees_any(const uint8_t *code, raddr_t entry, size_t bytes,
	bool (*is_seen)(void *context, raddr_t addr, bool is_word), void *context);
