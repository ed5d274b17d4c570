/* SPDX-License-Identifier: Apache-2.0
 *
 * The walk that remembers. A slot keeps its thread's last stack; the next walk loads every word of
 * it that was used then, and where all are unchanged it takes the outer frames as they are.
 *
 * A walk is a function of the caller's registers, the tables, and the words it loads. The kept
 * frames are of one snapshot, and a kept frame stands for the outer ones only if the walk arrives
 * at the very same pc, rsp and rbp: the result is that of walk_plain, at less cost.
 */
#pragma once

#include "agent/walk.h"

/*
 * The node id of the stack; what walk_plain and intern_stack give with the snapshot in force. Cut
 * stacks and losses are counted in the slot.
 */
uint32_t trace_stack(
	const struct abi_config *config, struct abi_slot *slot, const struct walk_start *start);
