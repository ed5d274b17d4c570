/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks as node ids: a trie of (caller, PC) in shared memory, found by hash, lock-free
 * (format/abi_control.h).
 */
#pragma once

#include "format/abi_control.h"

/*
 * The id of the stack of `count` frames (walk.h), innermost first, whose PCs mean the modules of
 * `epoch`. When no node is left: that of the deepest caller there is, and `*ret_cut` is set.
 */
uint32_t intern_stack(const struct abi_config *config, uint16_t epoch, const uint64_t *frames,
	uint32_t count, bool *ret_cut);
