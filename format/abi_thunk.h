/* SPDX-License-Identifier: Apache-2.0
 *
 * The thunk page: heaptap writes only addresses of thunk entries into GOT slots of the target.
 *
 *      +0                                          +40 (entry)         +64
 *      | target | real | config | real_lo | len,hook | code             |
 *
 * code:   endbr64 ; lea thunk(%rip), %<argument register `arity`> ; jmp *target(%rip)
 *
 * A call through a hooked GOT slot enters `code`, which passes the thunk's own address as one extra
 * argument (a guard's and a mapping function's in r11) and jumps through `target`: the agent's hook
 * while recording, the real function before and after. One aligned store of `real` to `target`
 * disables a thunk. Once every `target` equals `real`, the page needs no other mapping and may stay
 * as the jump page.
 *
 * The entry is not the thunk's first byte: hooks spill the thunk's address to the stack, and a word
 * equal to an entry is therefore always a function pointer that the program holds.
 *
 * The daemon writes the page (through the memfd, or /proc/PID/mem for an adopted jump page); the
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
	uint8_t plain_index;  /* into abi_config.plain[]; only for ABI_NEWS */
	uint8_t code[ABI_THUNK_CODE_BYTES];
};

#define ABI_THUNK_ENTRY offsetof(struct abi_thunk, code)

_Static_assert(sizeof(struct abi_thunk) == ABI_THUNK_BYTES, "a thunk is one cache line");
_Static_assert(ABI_THUNK_ENTRY % 8 == 0, "entries are aligned");
