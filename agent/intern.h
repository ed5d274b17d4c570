/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks as node ids: a trie of (caller, PC) in shared memory, found by hash, lock-free
 * (format/abi_control.h).
 */
#pragma once

#include "format/abi_control.h"

#define INTERN_NONE UINT32_MAX

/* Looks up the id of a hash, which is abi_stack_hash over `epoch` and all frames; INTERN_NONE: new.
 */
uint32_t intern_find(const struct abi_config *config, uint64_t hash);

/*
 * The id of `frame` called from the stack `parent`, found or added under `hash`; INTERN_NONE: no
 * room. If two threads add a node under `hash` at once, the second takes the node of the first, and
 * its own stays unused. `function`: as in abi_control.h; 0: none.
 */
uint32_t intern_frame(const struct abi_config *config, uint16_t epoch, uint32_t parent,
	uint64_t hash, uint64_t frame, uint64_t function);

/*
 * The id of the stack of `count` frames (step.h), innermost first, whose PCs mean the modules of
 * `epoch`. `functions`: as in abi_control.h, one for each frame; NULL: none. If no node is left:
 * the id of the innermost caller that has a node, and `*ret_cut` is set.
 */
uint32_t intern_stack(const struct abi_config *config, uint16_t epoch, const uint64_t *frames,
	const uint64_t *functions, uint32_t count, bool *ret_cut);
