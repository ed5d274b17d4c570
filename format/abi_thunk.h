/* SPDX-License-Identifier: Apache-2.0
 *
 * The thunk page: the only addresses that ever stand in a slot of the target.
 *
 *      +0                                          +40 (entry)         +64
 *      | target | real | config | real_lo | len,hook | code             |
 *
 * code:   endbr64 ; lea thunk(%rip), %<argument register `arity`> ; jmp *target(%rip)
 *
 * A call through a tapped slot enters `code`, which passes the thunk's own address as one argument
 * more than the function has (a guard's in r11) and jumps through `target`: the agent's hook while
 * tapped, the real function before and after. Disabling is one aligned store of `real` to `target`.
 * The page needs nothing else to be mapped once every `target` equals `real`; then it may stay
 * behind as the tombstone.
 *
 * The entry is not the thunk's first byte, so that a word equal to an entry is a function pointer
 * that the program holds, never an argument that a hook has spilled.
 *
 * The daemon writes the page (through the memfd, or /proc/PID/mem for an adopted tombstone); the
 * target maps it r-x. One thunk per (hook, distinct real function).
 */
#pragma once

#include "format/base.h"

#define ABI_THUNK_BYTES	     64u
#define ABI_THUNK_CODE_BYTES 24u
#define ABI_THUNK_MAX	     (HT_PAGE_BYTES / ABI_THUNK_BYTES)

struct abi_thunk {
	uint64_t target;      /* where `code` jumps */
	uint64_t real;	      /* the allocator's own function; 0: the thunk is unused */
	uint64_t config;      /* struct abi_config, as an address in the target */
	uint64_t real_lo;     /* executable range of the module that holds `real`: a nested call */
	uint32_t real_len;    /*   returning into it is the allocator calling itself */
	uint16_t hook;	      /* enum abi_hook */
	uint8_t usable_index; /* into abi_config.usable[] */
	uint8_t plain_index;  /* into abi_config.plain[], of ABI_NEWS */
	uint8_t code[ABI_THUNK_CODE_BYTES];
};

#define ABI_THUNK_ENTRY offsetof(struct abi_thunk, code)

_Static_assert(sizeof(struct abi_thunk) == ABI_THUNK_BYTES, "a thunk is one cache line");
_Static_assert(ABI_THUNK_ENTRY % 8 == 0, "entries are aligned");
