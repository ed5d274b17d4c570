/* SPDX-License-Identifier: Apache-2.0
 *
 * Unwind tables: the daemon compiles them from .eh_frame, the agent walks stacks by them.
 *
 * A table covers one module's executable bytes [lo, hi), offsets from its load bias. Row i says how
 * to unwind PCs in [pc(i), pc(i + 1)). Rows are sorted by PC and cover the range without a hole
 * (bytes without CFI are rows too: rule NONE or FRAME).
 *
 *      struct abi_table                      header, 64 bytes
 *      uint32_t granule[granule_count + 1]   first row of each granule
 *      uint16_t row_pc[row_count + 16]       pc(i) & 255; ends with 16 words of 0xffff
 *      uint16_t row_rule[row_count]          index into rule[]
 *      uint32_t rule[rule_count]             abi_rule_*
 *
 * Granule g covers [lo + g * 256, lo + (g + 1) * 256), lo being a multiple of 256. granule[g] is
 * the index of the row in force at the granule's first byte; every granule begins with a row of its
 * own (the compiler repeats the row in force), so rows granule[g] .. granule[g + 1] - 1 lie in it
 * and row_pc holds pc & 255 of each. Invariant: row_pc[granule[g]] == 0, ascending within a
 * granule. Lookup of pc: g = (pc - lo) / 256; the last row of g with row_pc <= pc & 255.
 *
 * The agent checks every index against the counts before use; a broken table gives wrong frames,
 * never a fault. Layout after otel-ebpf-profiler and the kernel's ORC.
 */
#pragma once

#include "format/base.h"

enum abi_rule_kind {
	ABI_RULE_NONE,	 /* nothing known: the walk stops (ABI_TRUNC_NO_RULE) */
	ABI_RULE_RSP,	 /* CFA = rsp + 8 * offset */
	ABI_RULE_RBP,	 /* CFA = rbp + 8 * offset */
	ABI_RULE_DRAP,	 /* CFA = *(rbp + 8 * offset), offset negative: gcc's realigned frames */
	ABI_RULE_SIGNAL, /* a signal trampoline: rsp points at the kernel's ucontext */
	ABI_RULE_PLT,	 /* CFA = rsp + 8 + ((pc & 15) >= offset ? 8 : 0) */
	ABI_RULE_END,	 /* outermost frame: return address undefined */
	ABI_RULE_FRAME,	 /* no CFI, frame pointer assumed: CFA = rbp + 16, rbp = *rbp */
};

/*
 * FRAME with an offset other than 0: code of an interpreter, whose PC does not tell which function
 * it runs. The function is at rbp + 8 * offset, as in V8: a tagged pointer, the address plus 1. In
 * some threads (abi_snapshot.scripts) the node holds that address instead of the PC (abi_control.h,
 * ABI_NODE_INTERPRETED).
 */

/*
 * A rule is one word: bits 0-2 kind, bits 3-18 offset (int16_t, in 8-byte words), bits 19-26 rbp
 * slot: saved rbp at CFA - 8 * slot; 0: rbp unchanged. The return address is always at CFA - 8, and
 * the caller's rsp is CFA. In a DRAP frame the slot is 0, and the saved rbp is at *rbp. If the
 * saved-rbp slot is below rsp, the function has popped it: rbp is unchanged.
 */
#define ABI_RULE_BITS	 27u
#define ABI_RBP_SLOT_MAX 255

static inline uint32_t abi_rule_make(enum abi_rule_kind kind, int offset_words, unsigned rbp_slot)
{
	return (uint32_t)kind | (uint32_t)(uint16_t)offset_words << 3 | rbp_slot << 19;
}

static inline enum abi_rule_kind abi_rule_kind(uint32_t rule)
{
	return (enum abi_rule_kind)(rule & 7);
}

static inline int abi_rule_offset(uint32_t rule)
{
	return (int16_t)(rule >> 3);
}

static inline unsigned abi_rule_rbp_slot(uint32_t rule)
{
	return rule >> 19 & 0xff;
}

#define ABI_GRANULE_BYTES 256u
#define ABI_TABLE_MAGIC	  0x544e5755u
#define ABI_ROW_PAD	  16u

struct abi_table {
	uint32_t magic;
	uint32_t bytes;		/* of the whole table, header included */
	uint64_t lo, hi;	/* offsets from the load bias; multiples of ABI_GRANULE_BYTES */
	uint32_t granule_count; /* (hi - lo) / ABI_GRANULE_BYTES */
	uint32_t row_count;
	uint32_t rule_count;
	uint32_t granule_off, pc_off, index_off, rule_off; /* bytes from the table's start */
	uint32_t unsupported_rows; /* rows that no rule can express; they are NONE */
	uint32_t pad[2];
};

_Static_assert(sizeof(struct abi_table) == 64, "header size is part of the layout");

/*
 * A snapshot: the executable ranges of the target at one time, sorted, not overlapping. Immutable;
 * a new one with a zeroed cache replaces it (abi_config.unwind).
 */
struct abi_range {
	uint64_t lo, hi; /* addresses in the target */
	uint64_t bias;	 /* load bias of its module */
	/* Address in the target of its struct abi_table. 0: no table, FRAME rule. An address that
	 * holds no table: rule NONE. ABI_RANGE_RULE | rule: that rule. */
	uint64_t table;
};

#define ABI_RANGE_RULE (1ull << 63)

#define ABI_SCRIPTS_THREADS 8u

struct abi_snapshot {
	uint32_t generation; /* increases by 1 with each snapshot */
	uint16_t epoch;	     /* increases by 1 when a range belongs to another module than before
				(dlclose) */
	uint16_t pad;
	uint32_t range_count;
	uint32_t cache_sets; /* ABI_CACHE_SETS */
	uint64_t cache;	     /* uint64_t[cache_sets][2], zeroed */
	/* The threads whose frames are recorded by interpreted function (abi_control.h,
	 * abi_scripts_of), up to the first 0. Pointer and number share a word, so a thread never
	 * reads another thread's number as its own. */
	uint64_t scripts[ABI_SCRIPTS_THREADS];
	struct abi_range range[];
};

/*
 * PC cache entry: tag (37 bits) << 27 | rule; 0 is empty. x = pc ^ pc >> 10 is a bijection on
 * 47-bit addresses: set = x & (cache_sets - 1), tag = x >> 10. An entry is one word, so it is never
 * torn and never matches a wrong PC. A PC whose rule is NONE is not cached.
 */
static inline uint64_t abi_cache_mix(uint64_t pc)
{
	return pc ^ pc >> 10;
}
